import { writeFileSync } from "node:fs";
import type { Reporter, TestModule } from "vitest/node";

/** What came of one run of tests, or of one file of it. */
export interface TestCount {
  readonly passed: number;
  readonly failed: number;
}

/** What a run leaves for whoever started it, as JSON in the file that `FAIRLEAD_TEST_COUNT` names. */
export interface RunCount extends TestCount {
  /** The files that failed, by path, each with its own count. */
  readonly failedFiles: Readonly<Record<string, TestCount>>;
}

function countModule(module: TestModule): TestCount {
  const states = Array.from(module.children.allTests(), (test) => test.result().state);
  const failed = states.filter((state) => state === "failed").length;
  const passed = states.filter((state) => state === "passed").length;
  // A module that could not even be loaded is a failure without a test.
  return { passed, failed: failed === 0 && module.state() === "failed" ? 1 : failed };
}

/** The last line of a run, so that one that tested nothing is seen. */
export function countLine({ passed, failed }: TestCount): string {
  return `${passed} passed, ${failed} failed\n`;
}

/** Prints `N passed, N failed` alone on the last line, and leaves a {@link RunCount} where it is asked for. */
export class CountReporter implements Reporter {
  /** Called by vitest once, after every other reporter above it in the list has printed its summary. */
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    let passed = 0;
    // An error outside of any test is a failure of the run, and of no file.
    let failed = unhandledErrors.length;
    const failedFiles: Record<string, TestCount> = {};
    for (const module of modules) {
      const count = countModule(module);
      passed += count.passed;
      failed += count.failed;
      if (count.failed > 0) failedFiles[module.moduleId] = count;
    }
    const report = process.env["FAIRLEAD_TEST_COUNT"];
    const count: RunCount = { passed, failed, failedFiles };
    if (report !== undefined) writeFileSync(report, JSON.stringify(count));
    process.stdout.write(countLine(count));
  }
}
