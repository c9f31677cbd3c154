import { Fault } from "../../shared/fault/fault.ts";
import { Admin } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { toTime } from "../../shared/terminal/json.ts";
import { parsePairs } from "../../shared/terminal/pairs.ts";
import { openGateway } from "./open-gateway.ts";

/** `invite`: a join code and the command to run on the other machine. */
export const commands: readonly CommandModule[] = [
  {
    words: "invite",
    summary: "make a join code for another machine",
    example: "fairlead invite --name devbox --label env=dev --profile work",
    options: [
      { flags: "--name <alias>", text: "the node's alias" },
      { flags: "--label <k=v>", text: "a label of the node", many: true },
      { flags: "--profile <name>", text: "how far sessions may go: read, work or full (default read)" },
      { flags: "--ttl <time>", text: "how long the code lives (default 10m)" },
      { flags: "--uses <n>", text: "how many machines may use it (default 1)" },
      { flags: "--require-approval", text: "each machine waits until nodes approve lets it in" },
      { flags: "--note <text>", text: "what it is for; shown with the request, and the node's note" },
    ],
    run: async (input, runtime) => {
      const uses = input.integer("uses", { min: 1, max: 10_000 });
      const alias = input.text("name");
      if (alias !== undefined && uses !== undefined && uses > 1) throw nameForMany(alias, uses);
      const request = {
        alias: alias ?? "",
        labels: parsePairs(input.texts("label"), "label"),
        profile: input.text("profile") ?? "",
        ttlMs: BigInt(input.durationMs("ttl") ?? 0),
        ...(uses === undefined ? {} : { uses }),
        requireApproval: input.flag("require-approval"),
        note: input.text("note") ?? "",
      };
      await using gateway = await openGateway(runtime);
      const made = await gateway.client(Admin).createInvite(request, gateway.call());
      const json = {
        code: made.code,
        command: made.command,
        expiresAt: toTime(made.expiresMs),
        uses: made.uses,
        requireApproval: made.requireApproval,
        warnings: made.warnings,
      };
      await runtime.output.result(json, () => [
        `code: ${made.code}`,
        `command: ${made.command}`,
        `expires: ${json.expiresAt ?? "never"}, uses: ${made.uses}`,
        ...(made.requireApproval ? ["each machine waits for: fairlead nodes approve ID"] : []),
      ]);
      for (const warning of made.warnings) runtime.output.note(`warning: ${warning}`);
    },
  },
];

function nameForMany(alias: string, uses: number): Fault {
  return new Fault("INVALID_ARGUMENT", `--name ${alias} is one node's alias, and --uses is ${uses}`, {
    hint: "leave --name out; each machine then brings its wish, and nodes rename gives another",
    details: { field: "uses", actual: uses },
  });
}
