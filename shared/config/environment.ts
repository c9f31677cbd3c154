/** What the environment says. Read here and nowhere else. */
export interface Environment {
  /** `FAIRLEAD_HOME`. */
  readonly home: string | undefined;
  /** `FAIRLEAD_GATEWAY`. */
  readonly gateway: string | undefined;
  /** `FAIRLEAD_TOKEN`; a secret. */
  readonly token: string | undefined;
  /** `FAIRLEAD_PIN`. */
  readonly pin: string | undefined;
  /** `FAIRLEAD_EMBEDDINGS_KEY`; a secret. */
  readonly embeddingsKey: string | undefined;
  /** Whether `NO_COLOR` is set. */
  readonly noColor: boolean;
  /** `FAIRLEAD_LOG`: the lowest level that is logged. */
  readonly logLevel: string | undefined;
  /** `PATH`. */
  readonly path: string;
  /** The user's home folder, for `~`. */
  readonly userHome: string;
  /** `XDG_RUNTIME_DIR`: where short socket paths may lie. */
  readonly runtimeDir: string | undefined;
  /** `XDG_CONFIG_HOME`: where the user's systemd looks for its units. */
  readonly configDir: string | undefined;
  /** `DBUS_SESSION_BUS_ADDRESS`: the way to the user's systemd. */
  readonly busAddress: string | undefined;
}

/** Reads the environment of this process, or the one that is given. Empty variables count as not set. */
export function readEnvironment(variables: NodeJS.ProcessEnv = process.env): Environment {
  const read = (name: string): string | undefined => variables[name] || undefined;
  return {
    home: read("FAIRLEAD_HOME"),
    gateway: read("FAIRLEAD_GATEWAY"),
    token: read("FAIRLEAD_TOKEN"),
    pin: read("FAIRLEAD_PIN"),
    embeddingsKey: read("FAIRLEAD_EMBEDDINGS_KEY"),
    noColor: read("NO_COLOR") !== undefined,
    logLevel: read("FAIRLEAD_LOG"),
    path: read("PATH") ?? "",
    userHome: read("HOME") ?? read("USERPROFILE") ?? "",
    runtimeDir: read("XDG_RUNTIME_DIR"),
    configDir: read("XDG_CONFIG_HOME"),
    busAddress: read("DBUS_SESSION_BUS_ADDRESS"),
  };
}
