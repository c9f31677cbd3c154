import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { countLine, type RunCount, type TestCount } from "./support/reporter.ts";

// Runs the tests that the arguments choose, all of them without any. In CI a file that failed runs a second time, as a
// whole and with nothing beside it, since a shared machine can be late once and real programs are waited for; what
// fails twice has failed. The report names each such file. More than a few at once are no accident.
const mostSecondRuns = 4;
const root = fileURLToPath(new URL("..", import.meta.url));
const report = join(tmpdir(), `fairlead-test-count-${process.pid}.json`);

interface Run {
  readonly exitCode: number;
  readonly count: RunCount | undefined;
}

async function runVitest(args: readonly string[]): Promise<Run> {
  rmSync(report, { force: true });
  const vitest = join(root, "node_modules/vitest/vitest.mjs");
  const child = spawn(
    process.execPath,
    [vitest, "run", "--config", join(root, "test/vitest.config.ts"), ...args],
    {
      cwd: root,
      stdio: "inherit",
      env: { ...process.env, FAIRLEAD_TEST_COUNT: report },
    },
  );
  const pass = (signal: NodeJS.Signals): void => void child.kill(signal);
  process.on("SIGINT", pass).on("SIGTERM", pass);
  const [code] = (await once(child, "exit")) as [number | null];
  process.off("SIGINT", pass).off("SIGTERM", pass);
  try {
    return { exitCode: code ?? 1, count: JSON.parse(readFileSync(report, "utf8")) as RunCount };
  } catch {
    return { exitCode: code ?? 1, count: undefined };
  } finally {
    rmSync(report, { force: true });
  }
}

function sum(counts: readonly TestCount[]): TestCount {
  return counts.reduce((all, one) => ({ passed: all.passed + one.passed, failed: all.failed + one.failed }), {
    passed: 0,
    failed: 0,
  });
}

const first = await runVitest(process.argv.slice(2));
const again = Object.entries(first.count?.failedFiles ?? {});
const isWorthwhile = process.env["CI"] !== undefined && again.length > 0 && again.length <= mostSecondRuns;
if (!isWorthwhile || first.count === undefined) {
  process.exitCode = first.exitCode;
} else {
  const files = again.map(([file]) => file);
  const names = files.map((file) => relative(root, file)).join(", ");
  process.stdout.write(`\na second run of what failed: ${names}\n`);
  const second = await runVitest([...files, "--maxWorkers=1"]);
  const kept = sum(again.map(([, count]) => count));
  const found = second.count ?? kept;
  const count = {
    passed: first.count.passed - kept.passed + found.passed,
    failed: first.count.failed - kept.failed + found.failed,
  };
  process.stdout.write(`${second.exitCode === 0 ? "passed the second time" : "failed twice"}: ${names}\n`);
  process.stdout.write(countLine(count));
  process.exitCode = second.exitCode === 0 && count.failed > 0 ? 1 : second.exitCode;
}
