import type { CommandModule } from "../../shared/terminal/command.ts";
import { readLogin, removeLogin } from "./login-file.ts";

/** `logout`: forgets what `login` kept. */
export const commands: readonly CommandModule[] = [
  {
    words: "logout",
    summary: "forget the gateway and the token of fairlead login",
    example: "fairlead logout",
    run: async (_, { home, output }) => {
      // A file that cannot be read is removed all the same.
      const login = await readLogin(home).catch(() => undefined);
      await removeLogin(home);
      const gateway = login && `https://${login.address}`;
      await output.result({ gateway: gateway ?? null, already: login === undefined }, () => [
        gateway === undefined ? "nobody was logged in" : `logged out of ${gateway}`,
      ]);
      if (gateway !== undefined && output.isTerminal)
        output.note("Its token still holds; an admin ends it with fairlead tokens revoke ID.");
    },
  },
];
