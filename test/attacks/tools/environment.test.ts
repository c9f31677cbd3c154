import { expect } from "vitest";
import { proves } from "../../support/proves.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { startNode } from "../../support/start-node.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

proves(
  "tools.exec-environment",
  "a caller cannot say where programs, libraries, proxies and certificates are, and no secret of the agent gets in",
  { timeout: 90_000 },
  async () => {
    await using gateway = await startGateway();
    await using workspace = await makeTempWorkspace();
    const secrets = {
      AWS_SECRET_ACCESS_KEY: "secret-1",
      FAIRLEAD_TOKEN: "secret-2",
      HTTPS_PROXY: "http://user:secret-3@127.0.0.1:9",
      NODE_OPTIONS: "--no-warnings",
      MY_PASSWORD: "secret-4",
    };
    await using _node = await startNode({
      gateway,
      profile: "full",
      exec: "full",
      workspaces: { app: `${workspace.path}:rw` },
      env: secrets,
    });
    const wanted = {
      PATH: "/evil",
      LD_PRELOAD: "evil.so",
      LD_LIBRARY_PATH: "/evil",
      LD_AUDIT: "evil.so",
      DYLD_INSERT_LIBRARIES: "evil.dylib",
      NODE_OPTIONS: "--require=/evil",
      NODE_EXTRA_CA_CERTS: "/evil",
      NODE_TLS_REJECT_UNAUTHORIZED: "0",
      http_proxy: "http://evil",
      HTTPS_PROXY: "http://evil",
      ALL_PROXY: "http://evil",
      no_proxy: "evil",
      SSL_CERT_FILE: "/evil",
      SSL_CERT_DIR: "/evil",
      CURL_CA_BUNDLE: "/evil",
      REQUESTS_CA_BUNDLE: "/evil",
      GIT_SSL_NO_VERIFY: "evil",
      BASH_ENV: "/evil",
      GOOD: "kept",
    };
    const given = JSON.stringify({ command: ["env"], env: wanted });
    const called = (await gateway.json(["tools", "call", "devbox__exec", "--args", given])) as {
      readonly content: readonly { readonly text: string }[];
      readonly details: { readonly droppedVariables: readonly string[] };
    };
    const variables = new Map(
      (called.content[0]?.text ?? "").split("\n").map((line) => {
        const at = line.indexOf("=");
        return [line.slice(0, at), line.slice(at + 1)] as const;
      }),
    );
    expect(variables.get("GOOD")).toBe("kept");
    expect(variables.get("PATH")).toBe(process.env["PATH"]);
    const whole = JSON.stringify(called.content);
    for (const word of ["evil", "secret"]) expect(whole).not.toContain(word);
    const { GOOD: _good, ...refused } = wanted;
    for (const name of Object.keys(refused))
      if (name !== "PATH") expect([...variables.keys()]).not.toContain(name);
    expect(called.details.droppedVariables).toEqual(Object.keys(refused).toSorted());
  },
);
