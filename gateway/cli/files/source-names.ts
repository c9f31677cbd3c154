import { digestOf } from "../../../shared/content/digest.ts";
import { foldName } from "../../../shared/names/folded-name.ts";
import type { Remote } from "./remote.ts";

/** Hex digits of a suffix; more only where two of them are equal. */
const suffixDigits = 8;

/**
 * The sources with the names that they get in one folder. A name that only one of them has is kept; those that would be one
 * file, also where upper and lower case are the same, each get a suffix of their own address before the ending, which is
 * the same in every run and in whatever order they are given.
 */
export function nameApart(sources: readonly Remote[]): readonly Remote[] {
  const takers = Map.groupBy(sources, ({ name }) => foldName(name));
  for (let digits = suffixDigits; ; digits += suffixDigits) {
    const named = sources.map((source) =>
      (takers.get(foldName(source.name))?.length ?? 0) > 1
        ? { ...source, name: withSuffix(source, digits) }
        : source,
    );
    const isApart = new Set(named.map(({ name }) => foldName(name))).size === named.length;
    if (isApart || digits >= 64) return named;
  }
}

function withSuffix({ name, shown }: Remote, digits: number): string {
  const suffix = `-${digestOf(shown).slice("sha256:".length, "sha256:".length + digits)}`;
  const dot = name.lastIndexOf(".");
  const [stem, ending] = dot > 0 ? [name.slice(0, dot), name.slice(dot)] : [name, ""];
  return `${cutToBytes(stem, 255 - suffix.length - Buffer.byteLength(ending))}${suffix}${ending}`;
}

/** The longest begin of a text that has so many bytes: names of more than 255 cannot be made. */
function cutToBytes(text: string, maxBytes: number): string {
  let kept = "";
  let bytes = 0;
  for (const character of text) {
    bytes += Buffer.byteLength(character);
    if (bytes > maxBytes) break;
    kept += character;
  }
  return kept;
}
