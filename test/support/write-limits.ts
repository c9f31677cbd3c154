import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** Writes a configuration with other limits into a gateway's home, which is given back. */
export async function writeLimits(home: string, limits: Readonly<Record<string, number>>): Promise<string> {
  await mkdir(join(home, "gateway"), { recursive: true, mode: 0o700 });
  const lines = Object.entries(limits).map(([name, value]) => `  ${name}: ${value}`);
  await writeFile(join(home, "gateway/config.yaml"), `limits:\n${lines.join("\n")}\n`);
  return home;
}
