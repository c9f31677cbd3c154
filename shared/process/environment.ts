/** Variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** What the environment of a command is made of. */
export interface EnvironmentParts {
  /** The environment of this program; only what names the user, the language and the folders for temporary files passes. */
  readonly own: Environment;
  /** Where commands are looked for; that of this program by default. */
  readonly path?: string | undefined;
  /** What the caller wants to add. */
  readonly asked?: Environment;
  /** What is added last, whatever the caller asked. */
  readonly fixed?: Environment;
}

/** The environment of a command. */
export interface ScrubbedEnvironment {
  readonly variables: Readonly<Record<string, string>>;
  /** Names that the caller asked for and that were left out, in order. */
  readonly dropped: readonly string[];
}

const ownNames =
  /^(?:HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_[A-Z_]+|TZ|TMPDIR|XDG_RUNTIME_DIR|SYSTEMROOT|WINDIR|COMSPEC|PATHEXT|USERPROFILE|APPDATA|LOCALAPPDATA|TEMP|TMP)$/;

const refusedNames = [
  /^PATH$/,
  /^(?:LD|DYLD|FAIRLEAD)_/,
  /^NODE_(?:OPTIONS|EXTRA_CA_CERTS|TLS_REJECT_UNAUTHORIZED|USE_ENV_PROXY|USE_SYSTEM_CA|PATH)$/,
  /^(?:HTTP|HTTPS|FTP|ALL|NO|SOCKS|RSYNC|NPM_CONFIG_\w*)_PROXY$/,
  /^(?:NPM_CONFIG_(?:CA|CAFILE|STRICT_SSL|NOPROXY|NODE_OPTIONS))$/,
  /^(?:SSL|TLS|OPENSSL|GIT_SSL|GIT_PROXY|CURL_CA|CURL_SSL|REQUESTS_CA|PIP_CERT|AWS_CA|SSLKEYLOGFILE)/,
  /^(?:BASH_ENV|ENV|ZDOTDIR|PYTHONSTARTUP|PERL5OPT|RUBYOPT|JAVA_TOOL_OPTIONS|GIT_SSH(?:_COMMAND)?|GIT_EXEC_PATH)$/,
];

const nameShape = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * The environment that a command starts with. Nothing of this program passes but names of user, language and folders,
 * so no secret does; a caller cannot set where programs, libraries, proxies or trusted certificates are looked for.
 */
export function scrubEnvironment(parts: EnvironmentParts): ScrubbedEnvironment {
  const variables: Record<string, string> = {};
  for (const [name, value] of Object.entries(parts.own)) {
    if (value !== undefined && ownNames.test(name.toUpperCase())) variables[name] = value;
  }
  variables["PATH"] = parts.path ?? parts.own["PATH"] ?? "/usr/local/bin:/usr/bin:/bin";
  const dropped: string[] = [];
  for (const [name, value] of Object.entries(parts.asked ?? {})) {
    if (value === undefined) continue;
    if (isRefused(name) || value.includes("\0")) dropped.push(name);
    else variables[name] = value;
  }
  for (const [name, value] of Object.entries(parts.fixed ?? {})) {
    if (value !== undefined) variables[name] = value;
  }
  return { variables, dropped: dropped.sort() };
}

function isRefused(name: string): boolean {
  const upper = name.toUpperCase();
  return !nameShape.test(name) || refusedNames.some((shape) => shape.test(upper));
}
