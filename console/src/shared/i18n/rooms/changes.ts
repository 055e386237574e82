import type { Texts } from "../texts";

/** What agents did to files. */
export const en = {
  whose: "Changes of",
  session: "the whole session",
  subtask: "Subtask",
  allSubtasks: "All subtasks",
  none: "Agents changed no files, or what they changed was rolled back.",
  files: "Files: {{number}}",
  outside: "outside of plans",
  more: "More files than are shown: {{number}}. Choose a plan or a subtask to see them.",
  whole: "Show all of this file's changes",
  added: "added",
  deleted: "deleted",
  modified: "modified",
  unknown: "unknown",
  withheld: {
    secret: "This file can hold secrets, so its text is not shown.",
    no_text:
      "There is no text to show: the file is binary, very long, or its content is no longer kept.",
    more: "There is more than can be shown here.",
  },
} as const;

export const ru: Texts<typeof en> = {
  whose: "Изменения",
  session: "за всю сессию",
  subtask: "Подзадача",
  allSubtasks: "Все подзадачи",
  none: "Агенты не изменили ни одного файла, или их изменения отменены.",
  files: "Файлов: {{number}}",
  outside: "вне планов",
  more: "Показаны не все файлы, осталось: {{number}}. Чтобы увидеть их, выберите план или подзадачу.",
  whole: "Показать все изменения этого файла",
  added: "добавлен",
  deleted: "удалён",
  modified: "изменён",
  unknown: "неизвестно",
  withheld: {
    secret: "В этом файле могут быть секреты, поэтому его текст не показан.",
    no_text:
      "Показать нечего: файл двоичный, слишком длинный, или его содержимое больше не хранится.",
    more: "Здесь показано не всё.",
  },
};
