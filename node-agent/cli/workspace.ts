import path from "node:path";
import { parseWorkspaceName } from "../../shared/names/alias.ts";
import { ownContainment } from "../../shared/root/open-root.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { addExports, removeWorkspace } from "../config/edit-node-config.ts";
import { nodeConfigFile, readNodeSettings, resolveWorkspace } from "../config/node-settings.ts";
import { withoutHome } from "../workspace/export-settings.ts";
import { requireRules } from "../workspace/file-policy.ts";
import { assertExportable } from "./check-folder.ts";

/** The `node workspace` commands. A running agent follows the file they write. */
export const workspaceCommands: readonly CommandModule[] = [
  {
    words: "node workspace ls",
    summary: "the folders that this machine exports",
    example: "fairlead node workspace ls",
    run: async (_, runtime) => {
      const { workspaces } = await readNodeSettings(runtime);
      const json = workspaces.map((workspace) => ({
        ...withoutHome(workspace),
        allowSymlinkTargets: (workspace.allowSymlinkTargets ?? []).map((target) => ({ ...target })),
        containment: workspace.containment ?? ownContainment,
        maxFileBytes: workspace.maxFileBytes ?? null,
      }));
      await runtime.output.result({ workspaces: json }, () => ({
        columns: ["NAME", "FOLDER", "READ", "WRITE", "DENY"],
        whole: ["FOLDER", "READ", "WRITE", "DENY"],
        rows: workspaces.map((one) => [
          one.name,
          one.dir,
          one.read.join(" "),
          one.write.join(" "),
          one.deny.join(" "),
        ]),
        empty: "nothing is exported; add a folder with: fairlead node workspace add NAME DIR",
      }));
    },
  },
  {
    words: "node workspace add",
    summary: "export a folder; read only unless --write says what may be written",
    example: 'fairlead node workspace add app ./app --write "src/**"',
    args: [
      { name: "<name>", text: "the name it is exported under" },
      { name: "<dir>", text: "the folder" },
    ],
    options: [
      { flags: "--read <glob>", text: "what may be read (default everything)", many: true },
      { flags: "--write <glob>", text: "what may be written (default nothing)", many: true },
      { flags: "--deny <glob>", text: "what is neither read nor written", many: true },
    ],
    run: async (input, runtime) => {
      const name = parseWorkspaceName(input.argument("name"), "name");
      const dir = path.resolve(input.argument("dir"));
      await assertExportable(dir, runtime.home.dir);
      const globs = (option: string): { readonly [key: string]: readonly string[] } => {
        const given = input.texts(option);
        return given.length === 0 ? {} : { [option]: given };
      };
      const workspace = { name, dir, ...globs("read"), ...globs("write"), ...globs("deny") };
      const { userHome } = runtime.environment;
      requireRules([resolveWorkspace(workspace, { base: dir, userHome })]);
      await addExports(nodeConfigFile(runtime.home), { workspaces: [workspace] });
      await runtime.output.result({ ...workspace }, () => [`${dir} is exported as ${name}`]);
    },
  },
  {
    words: "node workspace rm",
    summary: "stop exporting a folder; its files stay",
    example: "fairlead node workspace rm app",
    args: [{ name: "<name>", text: "the name it is exported under" }],
    run: async (input, runtime) => {
      const name = input.argument("name");
      await removeWorkspace(nodeConfigFile(runtime.home), name);
      await runtime.output.result({ name, removed: true }, () => [`${name} is exported no longer`]);
    },
  },
];
