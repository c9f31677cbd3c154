import { State } from "../../shared/gen/fairlead/v1/state_pb.ts";
import { noDeadline } from "../../shared/rpc/deadline.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { toTime } from "../../shared/terminal/json.ts";
import { openGateway } from "./open-gateway.ts";
import { writeNewFile } from "./write-new-file.ts";

const fileArgument = { name: "<file>", text: "the backup" };

/** `gateway backup FILE`: a copy of the state of the gateway that runs. */
export const gatewayBackup: CommandModule = {
  words: "gateway backup",
  summary: "copy the whole state of the running gateway into a file",
  example: "fairlead gateway backup fairlead-2026-01-31.backup",
  args: [{ ...fileArgument, text: "where to; it must not be there yet" }],
  run: async (input, runtime) => {
    const file = input.argument("file");
    const { openBackup } = await import("../store/backup.ts");
    const parts = async function* (): AsyncGenerator<Uint8Array> {
      await using gateway = await openGateway(runtime);
      const answers = gateway.client(State).backup({}, { deadlineMs: noDeadline, ...gateway.call() });
      for await (const { bytes } of answers) yield bytes;
    };
    // Looked through before it gets its name: a backup that is there can be restored.
    const sizeBytes = await writeNewFile(file, parts(), async (stage) => {
      using _whole = await openBackup(stage);
    });
    await runtime.output.result({ file, sizeBytes }, () => [
      `${file} holds the state of the gateway, its private key among it: keep it as you keep that`,
    ]);
  },
};

/** `gateway restore FILE`: the state of a backup in place of the present one. */
export const gatewayRestore: CommandModule = {
  words: "gateway restore",
  summary: "put the state of a backup in place of the present one, which is kept beside it",
  example: "fairlead gateway restore fairlead-2026-01-31.backup",
  args: [fileArgument],
  run: async (input, runtime) => {
    const { restoreBackup } = await import("../store/restore.ts");
    const restored = await restoreBackup({
      file: input.argument("file"),
      dir: runtime.home.gatewayDir,
      now: runtime.clock.now(),
    });
    const madeAt = toTime(restored.madeAt);
    const { version, before } = restored;
    await runtime.output.result({ madeAt, version, before: before ?? null }, () => [
      `the state of ${madeAt} is in place; start it with: fairlead gateway run`,
      ...(before === undefined ? [] : [`the state from before is in ${before}`]),
    ]);
  },
};
