import { execFile } from "node:child_process";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";

/** Runs a program to its end and gives its output. */
export function runProgram(file: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(file, [...args], (error, stdout) => (error ? reject(error) : resolve(stdout)));
  });
}

/** A small disk of its own, which can be filled. Disposing takes it away. */
export async function mountTmpfs(sizeBytes: number): Promise<TempFolder> {
  const folder = await makeTempFolder();
  try {
    await runProgram("mount", ["-t", "tmpfs", "-o", `size=${sizeBytes}`, "tmpfs", folder.path]);
  } catch (error) {
    await folder[Symbol.asyncDispose]();
    throw error;
  }
  return {
    ...folder,
    [Symbol.asyncDispose]: async () => {
      await runProgram("umount", ["--lazy", folder.path]);
      await folder[Symbol.asyncDispose]();
    },
  };
}

/** Whether this process may mount: only root can. */
export function canMount(): boolean {
  return process.getuid?.() === 0;
}
