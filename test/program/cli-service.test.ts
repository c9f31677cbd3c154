import { expect, test } from "vitest";
import { faultOf, memberOf } from "../support/cli-fault.ts";
import { runCli } from "../support/run-cli.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

test("a service is shown before it is installed, and what is missing is said with the way out", async () => {
  await using home = await makeTempFolder();
  const cli = (...args: readonly string[]): ReturnType<typeof runCli> =>
    runCli([...args, "--json"], { home: home.path });
  const listen = ["--listen", "127.0.0.1:17443", "--advertise", "a.example:1", "--scope", "user"];
  const printed = await cli("gateway", "install", "--print", ...listen);
  expect(printed.exitCode).toBe(0);
  const text = String(memberOf(printed.json, "text"));
  expect(text).toContain(
    `"gateway" "run" "--home" "${home.path}" "--listen" "127.0.0.1:17443" "--advertise" "a.example:1"`,
  );
  expect(memberOf(printed.json, "file")).toBe(
    home.join(".config/systemd/user", `${String(memberOf(printed.json, "service"))}.service`),
  );

  const unsupported = faultOf(await cli("gateway", "install", ...listen));
  expect(unsupported).toMatchObject({ exitCode: 1, code: "INSTALL_UNSUPPORTED" });
  expect(unsupported.hint).toContain("fairlead gateway run");
  expect(faultOf(await cli("gateway", "install", "--listen", "nowhere"))).toMatchObject({ exitCode: 2 });
  expect(faultOf(await cli("node", "install", "--scope", "user"))).toMatchObject({
    exitCode: 4,
    hint: "fairlead node join CODE",
  });
  expect(faultOf(await cli("node", "logs"))).toMatchObject({ exitCode: 4, hint: "fairlead node install" });
  expect(await home.entries()).toEqual([]);
});
