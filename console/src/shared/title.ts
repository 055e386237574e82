/** What the browser's tab says: how many questions wait, and what is open. */

import { useEffect } from "react";

const parts: { waiting: number; place?: string } = { waiting: 0 };

function write(): void {
  const { waiting, place } = parts;
  const name = place ? `${place} · gonogo` : "gonogo";
  document.title = waiting > 0 ? `(${waiting}) ${name}` : name;
}

/** Have the tab say how many questions wait. */
export function useWaitingTitle(waiting: number): void {
  useEffect(() => {
    parts.waiting = waiting;
    write();
  }, [waiting]);
}

/** Have the tab say what is open, for as long as it is. */
export function usePlaceTitle(place: string | undefined): void {
  useEffect(() => {
    parts.place = place;
    write();
    return () => {
      parts.place = undefined;
      write();
    };
  }, [place]);
}
