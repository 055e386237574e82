/** What the page is given by the server, and by the link that opened it. */

/** The word by which the server's policy lets a style element through. */
export function nonceOf(page: Document): string {
  return page.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";
}

/** The login code of the address, which is taken out of it: it is nobody else's business. */
export function takeCode(window: Window): string | undefined {
  const code = codeIn(window.location.hash);
  if (code !== undefined) {
    window.history.replaceState(null, "", window.location.pathname);
  }
  return code;
}

/**
 * Be told of a code that a link brings to a page that is open already: only what follows `#` changes
 * then. Called before anything else listens, since no page has that name.
 */
export function onCode(window: Window, tell: (code: string) => void): void {
  function listen(event: Event): void {
    const code = takeCode(window);
    if (code !== undefined) {
      event.stopImmediatePropagation();
      tell(code);
    }
  }
  for (const kind of ["popstate", "hashchange"]) {
    window.addEventListener(kind, listen);
  }
}

/** What a person pasted to be let in. Tokens are gonogo's own, or signed by a provider. */
export function entryIn(text: string): { code: string } | { token: string } {
  const typed = text.trim();
  const code = codeIn(typed);
  const isToken = code === undefined && /^(gng_|[\w-]+\.[\w-]+\.[\w-]+$)/.test(typed);
  return isToken ? { token: typed } : { code: code ?? typed };
}

/** The code in a link, in its part after `#`, or as it stands. */
export function codeIn(text: string): string | undefined {
  return /(?:^|#)code=([\w-]+)$/.exec(text.trim())?.[1];
}
