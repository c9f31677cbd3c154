/** How far sessions may go on a node: list and read; also write, move, remove and commands that ask; everything. */
export type NodeProfile = "read" | "work" | "full";

/** A node as the gateway knows it. */
export interface NodeRecord {
  readonly id: string;
  /** What names are prefixed with; unique among nodes that are not revoked. */
  readonly alias: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly profile: NodeProfile;
  /** What an administrator wrote down about it; empty: nothing. */
  readonly note: string;
  /** `sha256:` digest of the public key's SubjectPublicKeyInfo. */
  readonly keyDigest: string;
  /** When it was paired, in milliseconds since 1970. */
  readonly pairedAt: number;
  /** When its present certificate ends, in milliseconds since 1970; 0: it was admitted and has not fetched one yet. */
  readonly certificateExpiresAt: number;
  /** Pin of the authority that signed that certificate; empty: not known. */
  readonly issuerPin: string;
  /** When it was revoked, in milliseconds since 1970. */
  readonly revokedAt: number | undefined;
  /** As the machine said when it enrolled; for people. */
  readonly hostName: string;
  readonly platform: string;
}

/** What becomes of a node's labels; the others stay. */
export interface LabelChange {
  readonly set: Readonly<Record<string, string>>;
  /** Names of labels to remove. */
  readonly remove: readonly string[];
}

/** The fleet as the store holds it. */
export interface Nodes {
  /** All nodes in order of their aliases; revoked ones last. */
  list(): Promise<readonly NodeRecord[]>;
  /** By id, or undefined. */
  find(id: string): Promise<NodeRecord | undefined>;
  /**
   * By alias, id, or a prefix of the id of at least 6 characters. `NOT_FOUND` with the nearest alias or, with no node
   * paired, the hint `fairlead invite`; `INVALID_ARGUMENT` that lists the candidates when several fit.
   */
  resolve(reference: string): Promise<NodeRecord>;
  /** Gives another alias; `ALREADY_EXISTS` when it is taken. */
  rename(id: string, alias: string): Promise<NodeRecord>;
  /** Sets and removes labels; `INVALID_ARGUMENT` with `details.field` = `label`. Of two at once none is lost. */
  label(id: string, change: LabelChange): Promise<NodeRecord>;
  /** Writes its note, one line; empty: none. */
  note(id: string, note: string): Promise<NodeRecord>;
  /** Marks it revoked, for ever; says whether it was before. */
  revoke(id: string): Promise<{ readonly node: NodeRecord; readonly already: boolean }>;
}
