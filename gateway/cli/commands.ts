import type { CommandGroup } from "../../shared/terminal/command.ts";

/** Every first word of the program, in the order of the help. A command's module is loaded when its word is used. */
export const groups: readonly CommandGroup[] = [
  {
    word: "up",
    summary: "start a gateway, this machine as its node, and a session, in one step",
    example: "fairlead up .",
    load: () => import("./up.ts"),
  },
  {
    word: "gateway",
    summary: "run the gateway and look at it",
    example: "fairlead gateway run --listen 0.0.0.0:7443 --advertise gateway.example:7443",
    load: () => import("./gateway.ts"),
  },
  {
    word: "invite",
    summary: "make a join code for another machine",
    example: "fairlead invite --name devbox --profile work",
    load: () => import("./invite.ts"),
  },
  {
    word: "node",
    summary: "join a gateway with this machine, and decide what it shows",
    example: "fairlead node join CODE --workspace app=./app:rw",
  },
  {
    word: "nodes",
    summary: "the machines of this gateway",
    example: "fairlead nodes ls",
    load: () => import("./nodes.ts"),
  },
  {
    word: "workspaces",
    summary: "what the machines export",
    example: "fairlead workspaces ls",
    load: () => import("./workspaces.ts"),
  },
  {
    word: "files",
    summary: "read and write files of a workspace",
    example: "fairlead files ls devbox:/app",
    load: () => import("./files.ts"),
  },
  {
    word: "memory",
    summary: "search and read memory files",
    example: 'fairlead memory search "settle period"',
    load: () => import("./memory.ts"),
  },
  {
    word: "skills",
    summary: "the skills of every machine",
    example: "fairlead skills ls",
    load: () => import("./skills.ts"),
  },
  {
    word: "tools",
    summary: "list, explain and call tools",
    example: "fairlead tools ls",
    load: () => import("./tools.ts"),
  },
  {
    word: "sessions",
    summary: "open, list and close sessions",
    example: "fairlead sessions open --agent coder --workspace devbox:/app",
    load: () => import("./sessions.ts"),
  },
  {
    word: "approvals",
    summary: "decide what waits for a person",
    example: "fairlead approvals ls",
    load: () => import("./approvals.ts"),
  },
  {
    word: "policy",
    summary: "what is allowed to whom, asked before it bites",
    example: "fairlead policy explain --agent coder --node devbox --read /app/src/main.ts",
    load: () => import("./policy.ts"),
  },
  {
    word: "audit",
    summary: "the record of what happened, and the proof that it is whole",
    example: "fairlead audit tail --follow",
    load: () => import("./audit.ts"),
  },
  {
    word: "tokens",
    summary: "make and end API tokens",
    example: "fairlead tokens create --agent coder",
    load: () => import("./tokens.ts"),
  },
  {
    word: "users",
    summary: "who administers the gateway, and in which role",
    example: "fairlead users add anna --role operator",
    load: () => import("./users.ts"),
  },
  {
    word: "login",
    summary: "administer a gateway elsewhere",
    example: "fairlead login https://gateway.example:7443 < token.txt",
    load: () => import("./login.ts"),
  },
  {
    word: "logout",
    summary: "forget the gateway of fairlead login",
    example: "fairlead logout",
    load: () => import("./logout.ts"),
  },
  {
    word: "whoami",
    summary: "the gateway that commands talk to, and as whom",
    example: "fairlead whoami",
    load: () => import("./whoami.ts"),
  },
  {
    word: "mcp",
    summary: "serve one session as an MCP server on standard input and output",
    example: "fairlead mcp --agent coder --workspace devbox:/app",
    load: () => import("./mcp.ts"),
  },
];
