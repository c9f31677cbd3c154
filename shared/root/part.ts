import type { Digest } from "../content/digest.ts";

/** A part of a file, by the bytes it begins with. */
export interface ResumeFrom {
  readonly sizeBytes: number;
  /** Of these bytes. */
  readonly digest: Digest;
}

/** Under what a stage can be kept and found again. */
export interface StagePart {
  /** 32 hex digits, of the source and the target. */
  readonly key: string;
  /** Goes on behind these bytes of what is kept; where it begins otherwise, the stage is empty as any other. */
  readonly resume?: ResumeFrom;
}

/** What is kept of a file: so many bytes of its begin, and their digest. */
export type FoundPart = ResumeFrom;
