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

/** The code in a link, in its part after `#`, or as it stands. */
export function codeIn(text: string): string | undefined {
  return /(?:^|#)code=([\w-]+)$/.exec(text.trim())?.[1];
}
