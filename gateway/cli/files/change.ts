import { parseDigest } from "../../../shared/content/digest.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import type { CommandModule } from "../../../shared/terminal/command.ts";
import { openGateway } from "../open-gateway.ts";
import { entryToJson, parseRemote, sourceToJson } from "./remote.ts";

/** `files mkdir`, `files rm` and `files mv`. */
export const changeCommands: readonly CommandModule[] = [
  {
    words: "files mkdir",
    summary: "make one folder on a node",
    example: "fairlead files mkdir devbox:/app/notes",
    args: [{ name: "<path>", text: "NODE:/WORKSPACE/PATH" }],
    options: [{ flags: "--parents", text: "make missing parents too" }],
    callsNode: true,
    run: async (input, runtime) => {
      const { workspace, path, shown } = parseRemote(input.argument("path"));
      await using gateway = await openGateway(runtime);
      const request = { workspace, path, parents: input.flag("parents") };
      const { entry, source } = await gateway.client(Files).makeFolder(request, gateway.call());
      const json = { ...(entry ? entryToJson(entry) : { path }), source: sourceToJson(source) };
      await runtime.output.result(json, () => [`made ${shown}`]);
    },
  },
  {
    words: "files rm",
    summary: "remove a file or a folder on a node",
    example: "fairlead files rm devbox:/app/old.txt",
    args: [{ name: "<path>", text: "NODE:/WORKSPACE/PATH" }],
    options: [
      { flags: "--recursive", text: "also a folder that has entries" },
      { flags: "--if-match <digest>", text: "only if the file has this digest" },
    ],
    callsNode: true,
    run: async (input, runtime) => {
      const { workspace, path, shown } = parseRemote(input.argument("path"));
      const wanted = input.text("if-match");
      const ifMatch = wanted === undefined ? "" : parseDigest(wanted, "if-match");
      await using gateway = await openGateway(runtime);
      const request = { workspace, path, recursive: input.flag("recursive"), ifMatch };
      const { removed, source } = await gateway.client(Files).remove(request, gateway.call());
      const json = { path, removed: Number(removed), source: sourceToJson(source) };
      await runtime.output.result(json, () => [`removed ${shown} (${removed})`]);
    },
  },
  {
    words: "files mv",
    summary: "rename inside one workspace",
    example: "fairlead files mv devbox:/app/a.txt devbox:/app/b.txt",
    args: [
      { name: "<from>", text: "NODE:/WORKSPACE/PATH" },
      { name: "<to>", text: "NODE:/WORKSPACE/PATH in the same workspace" },
    ],
    callsNode: true,
    run: async (input, runtime) => {
      const from = parseRemote(input.argument("from"), "from");
      const to = parseRemote(input.argument("to"), "to");
      if (from.workspace !== to.workspace) {
        throw new Fault("INVALID_ARGUMENT", "a move stays inside one workspace", {
          details: { field: "to" },
          hint: "get the file and put it into the other workspace",
        });
      }
      await using gateway = await openGateway(runtime);
      const request = { workspace: from.workspace, from: from.path, to: to.path };
      const { source } = await gateway.client(Files).move(request, gateway.call());
      const json = { from: from.path, to: to.path, source: sourceToJson(source) };
      await runtime.output.result(json, () => [`moved ${from.shown} to ${to.shown}`]);
    },
  },
];
