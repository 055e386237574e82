/** The language of the page: chosen here, else the browser's. */

import i18next from "i18next";
import { initReactI18next } from "react-i18next";
import { en } from "./en";
import { PSEUDO, pseudo } from "./pseudo";
import { ru } from "./ru";
import { typeset } from "./typography";

export const LANGUAGES = { en: "English", ru: "Русский" } as const;
/** The same, for a field to choose from. */
export const LANGUAGE_CHOICES = Object.entries(LANGUAGES).map(([value, label]) => ({
  value,
  label,
}));
export type LanguageCode = keyof typeof LANGUAGES;

const KEPT = "gonogo-language";

function initial(): LanguageCode | typeof PSEUDO {
  const kept = localStorage.getItem(KEPT);
  if (kept === PSEUDO) {
    return kept;
  }
  const wanted = [kept, ...navigator.languages].map((name) => name?.slice(0, 2));
  return wanted.find((name): name is LanguageCode => name === "en" || name === "ru") ?? "en";
}

export const i18n = i18next.createInstance();

void i18n.use(initReactI18next).init({
  lng: initial(),
  fallbackLng: "en",
  resources: {
    en: { translation: typeset(en) },
    ru: { translation: typeset(ru) },
    ...(initial() === PSEUDO && { [PSEUDO]: { translation: pseudo(en) } }),
  },
  // Words of the wire have colons.
  nsSeparator: false,
  interpolation: { escapeValue: false },
  initAsync: false,
});
document.documentElement.lang = i18n.language;

/** Speak another language from now on. */
export function speak(language: LanguageCode): void {
  localStorage.setItem(KEPT, language);
  document.documentElement.lang = language;
  void i18n.changeLanguage(language);
}

declare module "i18next" {
  interface CustomTypeOptions {
    defaultNS: "translation";
    resources: { translation: typeof en };
  }
}
