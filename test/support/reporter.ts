import type { Reporter, TestModule } from "vitest/node";

/** Prints `N passed, N failed` alone on the last line, so that a run that tested nothing is seen. */
export class CountReporter implements Reporter {
  /** Called by vitest once, after every other reporter above it in the list has printed its summary. */
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    let passed = 0;
    // An error outside of any test is a failure of the run, and so is a module that could not even be loaded.
    let failed = unhandledErrors.length;
    for (const module of modules) {
      const states = Array.from(module.children.allTests(), (test) => test.result().state);
      const failedHere = states.filter((state) => state === "failed").length;
      passed += states.filter((state) => state === "passed").length;
      failed += failedHere === 0 && module.state() === "failed" ? 1 : failedHere;
    }
    process.stdout.write(`${passed} passed, ${failed} failed\n`);
  }
}
