/**
 * The providers that are known. Each file is one provider's promises and its JSON; what they may claim is held by
 * `test/rails/bank-baseline.json`.
 */
import type { Profile } from '../profile.ts';
import { generic } from './generic.ts';
import { increase } from './increase.ts';
import { modernTreasury } from './modern-treasury.ts';
import { paypalPayouts } from './paypal-payouts.ts';
import { stripe } from './stripe.ts';
import { toss } from './toss.ts';
import { unkeyed } from './unkeyed.ts';

export const PROFILES: readonly Profile[] = [generic, toss, stripe, increase, modernTreasury, paypalPayouts, unkeyed];
