import { Fault } from "../../shared/fault/fault.ts";

/** Most characters of a note. */
const maxNoteCharacters = 200;

/** A note on a node or a code: one line of at most 200 characters; others are `INVALID_ARGUMENT`, `details.field` = `note`. */
export function parseNote(text: string): string {
  const note = text.trim();
  const { length } = Array.from(note);
  if (length <= maxNoteCharacters && !/[\p{Cc}\p{Zl}\p{Zp}\p{Cs}]/u.test(note)) return note;
  throw new Fault(
    "INVALID_ARGUMENT",
    length > maxNoteCharacters
      ? `a note has at most ${maxNoteCharacters} characters, this one ${length}`
      : "a note is one line of plain text",
    { details: { field: "note", limit: maxNoteCharacters, actual: length } },
  );
}
