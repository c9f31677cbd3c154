/** The promises of `pairing` that the tests prove: `{ id: "pairing.some-id", says: "the whole sentence" }`. */
export const pairing = [
  {
    id: "pairing.code-carries",
    says: "A join code decodes to every advertised address, the pin of the authority's public key and a secret of 128 bits, and 10,000 codes made for one gateway hold 10,000 different secrets.",
  },
  {
    id: "pairing.pin-spellings",
    says: "A pin with or without `sha256:`, with colons, upper case or surrounding blanks reads as the same pin wherever a pin is taken; 63 digits, non-hex digits and an empty pin are refused with `INVALID_ARGUMENT`.",
  },
  {
    id: "pairing.alias-rules",
    says: "An alias is 1 to 32 characters of a to z, 0 to 9 and single hyphens, begins with a letter and does not end with a hyphen; any other is refused with `INVALID_ARGUMENT`, `details.field` = `alias`.",
  },
  {
    id: "pairing.code-one-use",
    says: "A second machine using a code of one use gets `JOIN_CODE_INVALID`, `details.reason` = `used`, exit 1, and leaves no node and no request behind.",
  },
  {
    id: "pairing.code-uses-counted",
    says: "Of ten machines that join at the same moment with a code of `--uses 3`, exactly three are enrolled and seven get `JOIN_CODE_INVALID` with reason `used`.",
  },
  {
    id: "pairing.code-expires",
    says: "A code older than 10 min, or than its `--ttl`, is refused with `JOIN_CODE_INVALID`, `details.reason` = `expired`; the message states the time of expiry and the hint is `fairlead invite`.",
  },
  {
    id: "pairing.code-looked-up-exactly",
    says: "With an expired, a used and a valid code of one gateway, each join gets the result of its own code at join time, and a failed join leaves no identity in the home.",
  },
  {
    id: "pairing.identity-written-whole",
    says: "`node join` killed at any write leaves either no identity or a whole one; the next join with the same code in that home succeeds and counts as no second use.",
  },
  {
    id: "pairing.enrolment-one-transaction",
    says: "A gateway killed at any write of an enrolment comes back with either no node and an unused code, or one whole node whose certificate the machine's retry receives.",
  },
  {
    id: "pairing.first-contact-wrong-peer",
    says: "A peer at the code's address whose authority key differs from the pin gets a TLS handshake and no byte of secret, host name or key request; `node join` ends with `PIN_MISMATCH`, exit 1, both fingerprints in `details`.",
  },
  {
    id: "pairing.secret-needed",
    says: "A client with the right address and pin and a wrong secret gets `JOIN_CODE_INVALID`, `details.reason` = `unknown`; after 100 such tries within a minute its address gets `RATE_LIMITED` with `details.retryAfterMs`, while a valid code from another address still joins.",
  },
  {
    id: "pairing.certificate-names-one-node",
    says: "A key request that asks for another node's id or alias, a server name or the right to issue certificates yields a client certificate for its own new id alone, and only its public key is taken from it.",
  },
  {
    id: "pairing.no-identity",
    says: "`node run` in a home without an identity ends with `NOT_FOUND`, exit 4, and the hint `fairlead node join CODE`.",
  },
  {
    id: "pairing.code-damaged",
    says: "A code with one character changed, dropped or added is refused with `INVALID_ARGUMENT`, `details.field` = `code`, exit 2, before any address is dialled.",
  },
] as const;
