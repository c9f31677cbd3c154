import { join } from "node:path";
import { readPrivateFile, writePrivateFile } from "../../shared/identity/private-files.ts";

/**
 * The counter of a home: the generation that its last link was given. It moves on with every link, so two homes with one
 * identity soon differ, and the gateway sees that one of them is a copy.
 */
interface JoinState {
  readonly nodeId: string;
  readonly generation: number;
}

const fileName = "link.json";

/** The generation that the node was given last in this home; 0 when none is known. */
export async function readJoinState(dir: string, nodeId: string): Promise<number> {
  const file = await readPrivateFile(join(dir, fileName));
  if (!file) return 0;
  try {
    const { nodeId: of, generation } = JSON.parse(file.text) as Partial<JoinState>;
    return of === nodeId && Number.isSafeInteger(generation) ? (generation ?? 0) : 0;
  } catch {
    // A counter that cannot be read is none: the gateway then has nothing to compare.
    return 0;
  }
}

/** Keeps each generation, the later after the earlier; a write that fails goes to `onFault`. */
export function keepJoinState(
  dir: string,
  nodeId: string,
  onFault: (error: unknown) => void,
): (generation: number) => void {
  let turn: Promise<void> = Promise.resolve();
  return (generation) => {
    const state: JoinState = { nodeId, generation };
    turn = turn
      .then(() => writePrivateFile(join(dir, fileName), `${JSON.stringify(state)}\n`))
      .catch(onFault);
  };
}
