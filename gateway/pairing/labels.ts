import { Fault } from "../../shared/fault/fault.ts";

/** Most labels of one node. */
const maxLabels = 64;

const nameShape = /^[a-z0-9](?:[a-z0-9._/-]{0,61}[a-z0-9])?$/;
const valueShape = /^(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/;

/**
 * Labels of a node: names of a to z, 0 to 9, `.`, `_`, `-` and `/`, values of letters, digits, `.`, `_` and `-`, each
 * at most 63 characters with a letter or digit at both ends; a value may be empty. Others: `INVALID_ARGUMENT` with
 * `details.field` = `label`.
 */
export function parseLabels(labels: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const entries = Object.entries(labels);
  if (entries.length > maxLabels) {
    throw refused(`${entries.length} labels are more than ${maxLabels}`);
  }
  for (const [name, value] of entries) {
    const shown = JSON.stringify(`${name}=${value}`.slice(0, 128));
    if (!nameShape.test(name) || !valueShape.test(value)) throw refused(`${shown} is no label`);
  }
  return Object.fromEntries(entries);
}

function refused(message: string): Fault {
  return new Fault("INVALID_ARGUMENT", message, {
    details: { field: "label" },
    hint: "write labels like region=eu or team/role=build",
  });
}
