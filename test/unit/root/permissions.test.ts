import { fork } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";

test("what the system refuses is IO_ERROR with EACCES, one by one, and the rest is served", async () => {
  const base = mkdtempSync(join(tmpdir(), "fairlead-nobody-"));
  try {
    for (const folder of ["closed", "readonly"]) mkdirSync(join(base, folder));
    for (const file of ["closed/x", "fine", "readonly/x", "unreadable", "zlast"])
      writeFileSync(join(base, file), "x");
    for (const path of ["", "closed", "readonly", "closed/x", "fine", "readonly/x", "unreadable", "zlast"]) {
      if (process.getuid?.() === 0) chownSync(join(base, path), 65534, 65534);
    }
    chmodSync(join(base, "closed"), 0);
    chmodSync(join(base, "unreadable"), 0);
    chmodSync(join(base, "readonly"), 0o555);
    const child = fork(new URL("../../fixtures/root/look-unprivileged.ts", import.meta.url), [base]);
    const exited = once(child, "exit");
    const [outcome] = await once(child, "message");
    await exited;
    expect(outcome).toEqual({
      walked: [
        "closed",
        "closed: IO_ERROR",
        "fine",
        "readonly",
        "readonly/x",
        "unreadable: IO_ERROR",
        "zlast",
      ],
      list: "IO_ERROR EACCES",
      below: "IO_ERROR EACCES",
      read: "IO_ERROR EACCES",
      write: "IO_ERROR EACCES",
      remove: "IO_ERROR EACCES",
      fine: "ok",
    });
  } finally {
    chmodSync(join(base, "closed"), 0o700);
    chmodSync(join(base, "readonly"), 0o700);
    rmSync(base, { recursive: true });
  }
});
