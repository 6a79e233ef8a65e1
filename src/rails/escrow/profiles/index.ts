/** All profiles of escrowed trades. A new one needs a line in `test/rails/escrow-baseline.json`. */
import type { TradeProfile } from '../profile.ts';
import { standard } from './standard.ts';
import { VOCABULARIES } from './vocabularies.ts';

export const TRADE_PROFILES: readonly TradeProfile[] = [standard, ...VOCABULARIES];
