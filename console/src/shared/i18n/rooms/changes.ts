import type { Texts } from "../texts";

/** What agents did to files. */
export const en = {
  whose: "Changes of",
  session: "the whole session",
  subtask: "Subtask",
  allSubtasks: "All subtasks",
  none: "Agents changed no files, or their changes were rolled back.",
  files_one: "{{count}} file",
  files_other: "{{count}} files",
  outside: "outside plans",
  more_one: "{{count}} more file is not shown. Choose a plan or a subtask to see it.",
  more_other: "{{count}} more files are not shown. Choose a plan or a subtask to see them.",
  whole: "Show all changes of this file",
  copyPath: "Copy the path",
  copyDiff: "Copy the diff",
  added: "added",
  deleted: "deleted",
  modified: "modified",
  unknown: "unknown",
  withheld: {
    secret: "This file may contain secrets, so its text is not shown.",
    no_text:
      "There is no text to show: the file is binary, very long, or its content is no longer kept.",
    more: "Not all changes are shown here.",
  },
} as const;

export const ru: Texts<typeof en> = {
  whose: "Изменения",
  session: "за всю сессию",
  subtask: "Подзадача",
  allSubtasks: "Все подзадачи",
  none: "Агенты не изменили ни одного файла, или их изменения откачены.",
  files_one: "{{count}} файл",
  files_few: "{{count}} файла",
  files_many: "{{count}} файлов",
  files_other: "{{count}} файла",
  outside: "вне планов",
  more_one: "Не показан ещё {{count}} файл. Чтобы увидеть его, выберите план или подзадачу.",
  more_few: "Не показаны ещё {{count}} файла. Чтобы увидеть их, выберите план или подзадачу.",
  more_many: "Не показано ещё {{count}} файлов. Чтобы увидеть их, выберите план или подзадачу.",
  more_other: "Не показано ещё {{count}} файла. Чтобы увидеть их, выберите план или подзадачу.",
  whole: "Показать все изменения этого файла",
  copyPath: "Скопировать путь",
  copyDiff: "Скопировать различия",
  added: "добавлен",
  deleted: "удалён",
  modified: "изменён",
  unknown: "неизвестно",
  withheld: {
    secret: "В этом файле могут быть секреты, поэтому его текст не показан.",
    no_text:
      "Показать нечего: файл двоичный, слишком длинный, или его содержимое больше не хранится.",
    more: "Здесь показаны не все изменения.",
  },
};
