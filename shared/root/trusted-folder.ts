/** A folder outside a root that links in it may lead into. */
export interface TrustedFolder {
  /** Absolute; itself reached by no link, or by those that its owner made. */
  readonly path: string;
  /** Whether what is in it may be changed. */
  readonly write: boolean;
}
