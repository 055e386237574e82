/** What agents did to files. */
export const en = {
  whose: "Changes of",
  undo: "Undo one subtask, or go back to a checkpoint",
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
  open: "Open in the editor",
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
