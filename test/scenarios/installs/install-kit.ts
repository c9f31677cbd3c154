import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import type { NpmRegistry } from "../../support/npm-registry.ts";
import type { TestGateway } from "../../support/start-gateway.ts";
import { startNode, type TestNode } from "../../support/start-node.ts";

/** The instruction file of a skill that needs a program, which these recipes make present. */
export function skillThatNeeds(bin: string, recipes: readonly string[]): string {
  return [
    "---",
    "name: fmt",
    "description: Formats texts.",
    `requires: {bins: [${bin}]}`,
    "metadata:",
    "  openclaw:",
    "    install:",
    ...recipes.map((recipe) => `      - ${recipe}`),
    "---",
    "",
  ].join("\n");
}

/** How `startInstallNode` starts a node. */
export interface InstallNodeOptions {
  readonly gateway: TestGateway;
  readonly registry: NpmRegistry;
  /** Its folder of skills. */
  readonly workspace: string;
  readonly alias?: string;
  readonly profile?: "full";
  /** Whether its own configuration lets anything be installed; it does by default. */
  readonly allow?: boolean;
}

/** A node that installs from that registry alone. */
export async function startInstallNode(options: InstallNodeOptions): Promise<TestNode> {
  const { gateway, registry, workspace, alias, profile, allow = true } = options;
  const node = await startNode({
    gateway,
    workspaces: { app: `${workspace}:rw` },
    exec: "full",
    ...(alias === undefined ? {} : { alias }),
    ...(profile === undefined ? {} : { profile }),
  });
  const installs = `installs:\n  allow: ${allow}\n  registries: [${registry.url}]\n`;
  await appendFile(join(node.home, "node/config.yaml"), `\n${installs}`);
  return node;
}
