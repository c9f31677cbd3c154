import { writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { chooseGateway, parseGatewayUrl } from "../../../gateway/cli/choose-gateway.ts";
import { readLogin, removeLogin, writeLogin } from "../../../gateway/cli/login-file.ts";
import { readEnvironment } from "../../../shared/config/environment.ts";
import { resolveHome } from "../../../shared/config/home.ts";
import { parsePin } from "../../../shared/identity/pin.ts";
import { faultOf } from "../../support/fault-of.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const pin = parsePin("ab".repeat(32));

test("a gateway's URL is an address over TLS, and nothing else", async () => {
  const good = {
    "https://gateway.example": "gateway.example:7443",
    "https://gateway.example:8443/": "gateway.example:8443",
    "HTTPS://[::1]:7443": "[::1]:7443",
    "gateway.example:7443": "gateway.example:7443",
    "gateway.example": "gateway.example:7443",
  };
  for (const [text, address] of Object.entries(good)) expect(parseGatewayUrl(text, "url")).toBe(address);
  const bad = [
    "http://gateway.example:7443",
    "http://127.0.0.1:7480",
    "ws://gateway.example",
    "https://user:secret@gateway.example",
    "https://gateway.example/path",
    "https://gateway.example:0",
    "https://",
    "",
  ];
  for (const text of bad) {
    const fault = await faultOf(() => parseGatewayUrl(text, "url"));
    expect([text, fault.code, fault.details["field"]]).toEqual([text, "INVALID_ARGUMENT", "url"]);
  }
});

test("token and pin come from the environment, else from the login at the same gateway, and from no other", async () => {
  await using place = await makeTempFolder();
  const home = resolveHome({ option: place.path, environment: { home: undefined } });
  const choose = (variables: NodeJS.ProcessEnv, gatewayUrl?: string): ReturnType<typeof chooseGateway> =>
    chooseGateway({ home, environment: readEnvironment(variables), gatewayUrl });
  await writeLogin(home, { address: "one.example:7443", pin, token: "of-the-login" });
  expect(await choose({})).toEqual({
    chosenBy: "login",
    address: "one.example:7443",
    pin,
    token: "of-the-login",
  });
  expect(await choose({}, "https://one.example")).toMatchObject({
    chosenBy: "option",
    token: "of-the-login",
  });
  expect(await choose({ FAIRLEAD_GATEWAY: "one.example", FAIRLEAD_TOKEN: "mine" })).toMatchObject({
    chosenBy: "environment",
    token: "mine",
    pin,
  });
  expect(await faultOf(choose({}, "https://two.example"))).toMatchObject({ code: "UNAUTHENTICATED" });
  expect(await faultOf(choose({ FAIRLEAD_TOKEN: "mine" }, "https://two.example"))).toMatchObject({
    code: "INVALID_ARGUMENT",
    details: { field: "FAIRLEAD_PIN" },
  });

  await writeFile(place.join("login.json"), "{");
  expect(await faultOf(readLogin(home))).toMatchObject({
    code: "INTEGRITY_FAILURE",
    hint: "fairlead logout, then fairlead login URL",
  });
  await removeLogin(home);
  expect(await choose({})).toMatchObject({ chosenBy: "local_socket" });
});
