/** What of nodes sessions are shown. */
export interface PublishSettings {
  /** Whether nodes' skills are shown at all. */
  readonly skills: boolean;
  /** Whether a node's skill always has its prefix, or only where two would have one name. */
  readonly prefix: "always" | "on-collision";
}

/** The gateway's own skills, and which skills agents may use. */
export interface SkillSettings {
  /** Whether changes of them are followed. */
  readonly watches: boolean;
  /** The skills that come with the program, absolute; another folder for who packs it anew. */
  readonly bundledDir: string;
  /** More folders of skills, absolute, in order of precedence. */
  readonly extraDirs: readonly string[];
  /** Folders, absolute, that linked skills may lie in. */
  readonly allowSymlinkTargets: readonly string[];
  /** What agents use whose own list says nothing; undefined: all. */
  readonly use: readonly string[] | undefined;
  /** Names that no agent uses. */
  readonly disabled: readonly string[];
}
