/** What the doctor says of one thing. `refuse`: no new seal may be made on it; `unsafe`: money has gone that nobody explained, which
 *  stops what it touches and nothing else; `warn`: a person should look. */
export type Level = 'ok' | 'warn' | 'unsafe' | 'refuse';

export interface Finding {
  /** Stable, for scripts: `fsync`, `skip_locked`. */
  readonly name: string;
  readonly level: Level;
  readonly found: string;
  /** What to do next; empty where all is well. */
  readonly hint: string;
}
