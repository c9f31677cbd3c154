import { describe, expect, test } from "vitest";
import { admitCommand } from "../../../node-agent/tools/exec-rules.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import { scrubEnvironment } from "../../../shared/process/environment.ts";
import type { Command } from "../../../shared/process/run-command.ts";

function admit(command: string | readonly [string, ...string[]], allow: readonly string[]): Command | string {
  try {
    const asked: Command = typeof command === "string" ? { shell: command } : { argv: command };
    return admitCommand(asked, { mode: "allow-list", allow }, "");
  } catch (error) {
    return error instanceof Fault ? `${error.code} ${JSON.stringify(error.details["rule"])}` : "?";
  }
}

const denied = 'POLICY_DENIED "exec.allow"';

describe("an allow list", () => {
  test("names programs found on the path, and the words behind them", () => {
    expect(admit(["git", "status"], ["git status"])).toEqual({ argv: ["git", "status"] });
    expect(admit(["git", "status", "-s"], ["git status"])).toEqual({ argv: ["git", "status", "-s"] });
    expect(admit(["git", "push"], ["git status"])).toBe(denied);
    expect(admit(["./git", "status"], ["git status"])).toBe(denied);
    expect(admit(["/usr/bin/git"], ["git"])).toBe(denied);
    expect(admit(["/opt/tools/x"], ["/opt/tools/*"])).toEqual({ argv: ["/opt/tools/x"] });
    expect(admit(["npm", "run", "test:unit"], ["npm run test:*"])).toEqual({
      argv: ["npm", "run", "test:unit"],
    });
    expect(admit(["npm"], ["npm *"])).toEqual({ argv: ["npm"] });
    expect(admit(["x"], [])).toBe(denied);
  });

  test("takes a plain line apart and runs it without a shell", () => {
    expect(admit("git  status 'a b' \"c d\"", ["git"])).toEqual({ argv: ["git", "status", "a b", "c d"] });
  });

  test.each([
    "git status; rm -rf x",
    "git status && rm x",
    "git status | sh",
    "git $(rm x)",
    "git `rm x`",
    'git "$(rm x)"',
    "git > x",
    "git < x",
    "git\nrm x",
    "git &",
    "GIT_SSH=x git status",
    "git {a,b}",
    "git *",
    "git ~root",
    "git \\; x",
    "git 'x",
    "git #x",
    "",
    "''",
  ])("never allows a line that a shell would do more with: %j", (line) => {
    expect(admit(line, ["git", "GIT_SSH=x git", "*"])).toBe(denied);
  });
});

describe("other modes", () => {
  const command: Command = { shell: "x" };
  test("off runs nothing, full everything, ask what was allowed", () => {
    const code = (mode: "off" | "ask" | "full", approval: string): string => {
      try {
        admitCommand(command, { mode, allow: [] }, approval);
        return "runs";
      } catch (error) {
        return error instanceof Fault ? `${error.code} ${JSON.stringify(error.details["side"])}` : "?";
      }
    };
    expect(code("off", "id")).toBe('POLICY_DENIED "node"');
    expect(code("ask", "")).toBe('APPROVAL_REQUIRED "node"');
    expect(code("ask", "id")).toBe("runs");
    expect(code("full", "")).toBe("runs");
  });
});

test("an environment holds nothing of the agent and nothing that leads programs astray", () => {
  const { variables, dropped } = scrubEnvironment({
    own: {
      HOME: "/h",
      LANG: "C",
      PATH: "/bin",
      AWS_SECRET_ACCESS_KEY: "s",
      FAIRLEAD_TOKEN: "t",
      HTTPS_PROXY: "http://u:p@x",
    },
    asked: {
      PATH: "/evil",
      LD_PRELOAD: "x",
      DYLD_INSERT_LIBRARIES: "x",
      NODE_OPTIONS: "x",
      https_proxy: "x",
      NO_PROXY: "x",
      SSL_CERT_FILE: "x",
      NODE_EXTRA_CA_CERTS: "x",
      BASH_ENV: "x",
      "A B": "x",
      GOOD: "yes",
    },
  });
  expect(variables).toEqual({ HOME: "/h", LANG: "C", PATH: "/bin", GOOD: "yes" });
  expect(dropped).toHaveLength(10);
  expect(scrubEnvironment({ own: { PATH: "/bin" }, path: "/usr/local/bin" }).variables["PATH"]).toBe(
    "/usr/local/bin",
  );
});
