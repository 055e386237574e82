import { colorOf, type Kind, kindOf } from "./states";

/** What is drawn for each kind of state, in a square of 16: told apart without its colour. */
const SHAPES: Record<Kind, React.ReactNode> = {
  done: (
    <>
      <circle cx="8" cy="8" r="7" fill="currentColor" />
      <path d="M4.8 8.3 7 10.5 11.3 6" stroke="var(--mantine-color-body)" strokeWidth="1.8" />
    </>
  ),
  failed: (
    <>
      <path d="M5 1.2h6L14.8 5v6L11 14.8H5L1.2 11V5Z" fill="currentColor" />
      <path
        d="m5.6 5.6 4.8 4.8m0-4.8-4.8 4.8"
        stroke="var(--mantine-color-body)"
        strokeWidth="1.8"
      />
    </>
  ),
  running: (
    <>
      <circle cx="8" cy="8" r="6.2" stroke="currentColor" strokeWidth="1.6" />
      <path d="M8 4.4a3.6 3.6 0 0 1 0 7.2Z" fill="currentColor" />
    </>
  ),
  waiting: (
    <>
      <path d="M8 1.4 15 14H1Z" fill="currentColor" strokeLinejoin="round" />
      <path d="M8 6v4" stroke="var(--mantine-color-body)" strokeWidth="1.7" />
      <circle cx="8" cy="12" r="0.95" fill="var(--mantine-color-body)" />
    </>
  ),
  paused: (
    <>
      <circle cx="8" cy="8" r="6.2" stroke="currentColor" strokeWidth="1.6" />
      <path d="M6.3 5.4v5.2m3.4-5.2v5.2" stroke="currentColor" strokeWidth="1.7" />
    </>
  ),
  over: (
    <>
      <circle cx="8" cy="8" r="6.2" stroke="currentColor" strokeWidth="1.6" />
      <path d="m4 12 8-8" stroke="currentColor" strokeWidth="1.6" />
    </>
  ),
  new: (
    <circle cx="8" cy="8" r="6.2" stroke="currentColor" strokeWidth="1.6" strokeDasharray="2.4 2" />
  ),
};

/** The shape of a state, beside the word for it. */
export function StateMark({ status, size = 12 }: { status: string; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      strokeLinecap="round"
      aria-hidden="true"
      style={{ flex: "none", color: `var(--mantine-color-${colorOf(status)}-light-color)` }}
    >
      {SHAPES[kindOf(status)]}
    </svg>
  );
}
