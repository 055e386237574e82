/** The language of the page: chosen here, else the browser's. */

import i18next from "i18next";
import { initReactI18next } from "react-i18next";
import { en } from "./en";
import { loadProblems } from "./problems";
import { PSEUDO, pseudo } from "./pseudo";
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
  lng: "en",
  fallbackLng: "en",
  resources: { en: { translation: typeset(en) } },
  // Words of the wire have colons.
  nsSeparator: false,
  interpolation: { escapeValue: false },
  initAsync: false,
});

/** Settles when the page has the texts of its language; English ones are always at hand. */
export const ready = change(initial()).catch(() => undefined);

/** Speak another language from now on. */
export async function speak(language: LanguageCode): Promise<void> {
  await change(language);
  localStorage.setItem(KEPT, language);
}

async function change(language: LanguageCode | typeof PSEUDO): Promise<void> {
  if (!i18n.hasResourceBundle(language, "translation")) {
    void loadProblems(language);
    i18n.addResourceBundle(language, "translation", await textsOf(language));
  }
  await i18n.changeLanguage(language);
  document.documentElement.lang = language;
}

/** A language other than English is loaded when it is spoken. */
async function textsOf(language: string): Promise<object> {
  return language === "ru" ? typeset((await import("./ru")).ru) : pseudo(en);
}

declare module "i18next" {
  interface CustomTypeOptions {
    defaultNS: "translation";
    resources: { translation: typeof en };
  }
}
