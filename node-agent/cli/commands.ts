import type { CommandGroup } from "../../shared/terminal/command.ts";

/** The one first word of the node's side; its commands are loaded when it is used. */
export const groups: readonly CommandGroup[] = [
  {
    word: "node",
    summary: "join a gateway with this machine, and decide what it shows",
    example: "fairlead node join CODE --workspace app=./app:rw",
    load: () => import("./node.ts"),
  },
];
