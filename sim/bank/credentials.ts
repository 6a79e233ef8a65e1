/* Which secrets are good now. A rotation ends all old ones at once, and the tokens that they bought. */
import type { MakeId } from './ids.ts';
import type { Profile } from './profile.ts';

export type Credentials = {
  readonly current: () => string;
  readonly rotate: () => string;
  /** One more secret of the same account: to a provider with a scope of credentials, another space of keys. */
  readonly issue: () => string;
  readonly headers: (secret?: string) => Readonly<Record<string, string>>;
  readonly isGood: (secret: string) => boolean;
  readonly grant: (secret: string) => void;
};

export function makeCredentials(profile: Profile, id: MakeId): Credentials {
  let current = id('sk_test_', 24);
  const good = new Set([current]);
  return {
    current: () => current,
    rotate() {
      good.clear();
      current = id('sk_test_', 24);
      good.add(current);
      return current;
    },
    issue() {
      const more = id('sk_test_', 24);
      good.add(more);
      return more;
    },
    headers: (secret = current) => profile.authorization(secret),
    isGood: (secret) => good.has(secret),
    grant: (secret) => void good.add(secret),
  };
}
