import { Fault } from "../../shared/fault/fault.ts";
import { startDeadline } from "../../shared/lifetime/clock.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import { readNodeSettings } from "../config/node-settings.ts";
import { attackContainment, type AttackOutcome } from "../workspace/attack-containment.ts";

/** All workspaces together take no longer than this, in milliseconds; what was tried until then counts. */
export const attackLimitMs = 60_000;
/** Each workspace is attacked until so much was done. */
const wantedSwaps = 20_000;
const wantedTries = 2_000;

interface Attacked extends AttackOutcome {
  readonly workspace: string;
  readonly dir: string;
}

/** `node doctor --attack`: attacks what keeps each exported folder's files inside; 1 when anything came out. */
export async function attackExports(runtime: Runtime): Promise<number> {
  const { workspaces } = await readNodeSettings(runtime);
  if (workspaces.length === 0) {
    throw new Fault("NOT_FOUND", "this machine exports no workspace that could be attacked", {
      hint: "fairlead node workspace add NAME DIR",
    });
  }
  const { clock } = runtime;
  using deadline = startDeadline({ timeoutMs: attackLimitMs, signal: runtime.signal, clock });
  const attacked: Attacked[] = [];
  for (const [index, { name, dir, followSymlinks, containment }] of workspaces.entries()) {
    // Who comes later finds time left.
    const share = attackLimitMs / workspaces.length;
    using turn = startDeadline({ timeoutMs: share * (index + 1), signal: deadline.signal, clock });
    const { signal } = turn;
    const goal = { swaps: wantedSwaps, tries: wantedTries };
    const how = { dir, followSymlinks, containment };
    const outcome = await attackContainment({ ...how, ...goal, clock, signal });
    runtime.signal.throwIfAborted();
    attacked.push({ workspace: name, dir, ...outcome });
  }
  const isWell = attacked.every((one) => escapesOf(one) === 0);
  await runtime.output.result(
    {
      ok: isWell,
      attacks: attacked.map(({ cases, ...one }) => ({
        ...one,
        tries: cases.reduce((sum, { tries }) => sum + tries, 0),
        escapes: escapesOf({ cases }),
        cases: cases.map((each) => ({ ...each })),
      })),
    },
    () => attacked.flatMap(toLines),
  );
  return isWell ? 0 : 1;
}

function escapesOf({ cases }: Pick<AttackOutcome, "cases">): number {
  return cases.reduce((sum, { escapes }) => sum + escapes, 0);
}

function toLines({ workspace, dir, containment, swaps, cases }: Attacked): readonly string[] {
  return [
    `workspace ${workspace} (${dir}): containment ${containment}, a parent swapped ${swaps} times`,
    ...cases.map(
      ({ name, tries, refused, escapes }) =>
        `  ${name}: ${tries} tries, ${refused} refused, ${escapes} ${escapes === 1 ? "escape" : "escapes"}`,
    ),
  ];
}
