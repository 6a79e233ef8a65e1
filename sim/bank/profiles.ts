/* All providers that the bank can play. */
import type { Profile, ProfileName } from './profile.ts';
import { generic } from './profiles/generic.ts';
import { increase } from './profiles/increase.ts';
import { modernTreasury } from './profiles/modern-treasury.ts';
import { paypalPayouts } from './profiles/paypal-payouts.ts';
import { stripe } from './profiles/stripe.ts';
import { toss } from './profiles/toss.ts';
import { unkeyed } from './profiles/unkeyed.ts';

export const PROFILES: Readonly<Record<ProfileName, Profile>> = {
  generic,
  toss,
  stripe,
  increase,
  'modern-treasury': modernTreasury,
  'paypal-payouts': paypalPayouts,
  unkeyed,
};
