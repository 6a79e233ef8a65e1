/*
 * One guard: a place in the code, what it looks like with the guard taken out, and the test that must then go red, with the
 * reason that must be in its message. A guard without a place yet names the step of the plan that brings it.
 */
export type Place = {
  /** Path from the root: TypeScript or a migration. */
  file: string;
  /** The guard's exact text; must occur exactly once in the file. */
  find: string;
  /** The same place without the guard. Must still parse: a syntax error is not the reason. */
  replace: string;
  /** The test file whose test must go red. */
  test: string;
  /** The title of that test. Several tests may match; at least one must fail for the reason, none for another. */
  title: RegExp;
  /** What the failure's message must say. */
  expect: RegExp;
};

export type PlacedGuard = { name: string } & Place;
export type Guard = PlacedGuard | { name: string; step: number };
