/** A provider's words and names, as far as they are kept, told or asked by: of a sane length, and nothing that does not show. Pure. */

/** What a person reads of one answer; longer is a page, which the stored answer has. */
const TOLD_CHARACTERS_MAX = 600;
/** A provider's words for a failure, as they reach a partner. */
const REASON_CHARACTERS_MAX = 200;
/** Providers' ids have 10 to 60 characters. A longer one would be refused as a path, or bloat every row that names it. */
const ID_CHARACTERS_MAX = 200;

// NUL, which no database text holds; line ends; half characters; what turns the reading direction.
const UNSHOWN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;
const UNSHOWN_ONE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

export function toldText(text: string): string {
  return shortened(text, TOLD_CHARACTERS_MAX);
}

export function reasonText(text: string | null): string | null {
  return text === null ? null : shortened(text, REASON_CHARACTERS_MAX);
}

function shortened(text: string, max: number): string {
  // Cut first: what is looked through is then as short as what is kept.
  const shown = text.slice(0, max).replaceAll(UNSHOWN, ' ');
  return text.length > max ? `${shown}…` : shown;
}

/** The id, or `null` where it is none that can be stored whole and asked by: dots alone would be another path. */
export function idText(id: string | null): string | null {
  if (id === null || id === '' || id === '.' || id === '..') return null;
  return id.length > ID_CHARACTERS_MAX || UNSHOWN_ONE.test(id) ? null : id;
}
