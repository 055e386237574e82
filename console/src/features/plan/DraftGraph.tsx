import { Button, Text, useComputedColorScheme } from "@mantine/core";
import {
  type Connection,
  Controls,
  type Edge,
  Handle,
  MarkerType,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
} from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { type KeyboardEvent, memo, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import type { Subtask } from "@/shared/api";
import { estimate } from "@/shared/i18n/typography";
import { visible } from "@/shared/ui";
import { canWait, type Draft, type Link, linksOf, withLink, withoutLink } from "./drafts";
import classes from "./GraphView.module.css";
import { layoutOf, NODE, nameOf } from "./layout";
import { EDGE_TYPES } from "./PassingEdge";
import { STEADY, useLabels } from "./SubtaskBox";
import { workerOf } from "./worker";

const MARGIN = 48;
const LEAST = 200;
const MOST = 480;

type DraftNode = Node<{ subtask: Subtask; isFirst: boolean }, "draft">;

const TYPES = { draft: memo(DraftBox) };

/**
 * The subtasks that a person writes, drawn as they wait for each other. Dependencies are drawn by
 * pointer, from one subtask to another, and by Enter on the one and then on the other. A line that
 * is chosen can be removed.
 */
export function DraftGraph({
  drafts,
  onChange,
}: {
  drafts: readonly Draft[];
  onChange: (drafts: Draft[]) => void;
}) {
  const { t } = useTranslation();
  const scheme = useComputedColorScheme();
  const labels = useLabels(t("plan.edit.node"));
  const [first, setFirst] = useState<number>();
  const [chosen, setChosen] = useState<string>();
  const links = useMemo(() => linksOf(drafts), [drafts]);
  const { places, passes, height } = useMemo(() => placesOf(drafts, links), [drafts, links]);
  const line = links.find(({ id }) => id === chosen);
  const begun = drafts.find(({ key }) => key === first);

  function link(from: number, to: number): void {
    setFirst(undefined);
    onChange(withLink(drafts, from, to));
  }

  function unlink(id: string | undefined): void {
    const gone = links.find((each) => each.id === id);
    if (gone !== undefined) {
      setChosen(undefined);
      onChange(withoutLink(drafts, gone.from.key, gone.to.key));
    }
  }

  function choose(key: number): void {
    setChosen(undefined);
    if (begun === undefined) {
      setFirst(key);
    } else {
      link(begun.key, key);
    }
  }

  function onKeyDown(event: KeyboardEvent<HTMLDivElement>): void {
    const at = (event.target as HTMLElement).closest<HTMLElement>("[data-id]");
    const isLine = at?.classList.contains("react-flow__edge") ?? false;
    const isNode = at?.classList.contains("react-flow__node") ?? false;
    if (event.key === "Escape") {
      setFirst(undefined);
      setChosen(undefined);
    } else if (event.key === "Delete" || event.key === "Backspace") {
      unlink(isLine ? at?.dataset.id : chosen);
    } else if (event.key === "Enter" || event.key === " ") {
      if (isNode) {
        event.preventDefault();
        choose(Number(at?.dataset.id));
      } else if (isLine) {
        setChosen(at?.dataset.id);
      }
    }
  }

  const nodes = drafts.map(
    ({ key, subtask }): DraftNode => ({
      id: String(key),
      type: "draft",
      position: places.get(String(key)) ?? { x: 0, y: 0 },
      data: { subtask, isFirst: key === first },
      ...NODE,
      sourcePosition: Position.Right,
      targetPosition: Position.Left,
      ariaRole: "button",
      focusable: true,
      deletable: false,
    }),
  );
  const edges = links.map(
    ({ id, from, to }): Edge => ({
      id,
      type: "passing",
      data: { passes: passes.get(nameOf(String(from.key), String(to.key))) },
      source: String(from.key),
      target: String(to.key),
      selected: id === chosen,
      ariaLabel: t("plan.edit.line", { from: from.subtask.id, to: to.subtask.id }),
      markerEnd: { type: MarkerType.ArrowClosed },
    }),
  );

  return (
    <section aria-label={t("plan.edit.graph")}>
      <div
        className={`${classes.frame} ${classes.drawn}`}
        style={{ height: Math.min(MOST, Math.max(LEAST, height + MARGIN)) }}
      >
        <ReactFlow
          key={drafts.map(({ key }) => key).join(" ")}
          nodes={nodes}
          edges={edges}
          nodeTypes={TYPES}
          edgeTypes={EDGE_TYPES}
          colorMode={scheme}
          ariaLabelConfig={labels}
          isValidConnection={({ source, target }) =>
            canWait(drafts, Number(source), Number(target))
          }
          onConnect={({ source, target }: Connection) => link(Number(source), Number(target))}
          onNodeClick={(_, { id }) => choose(Number(id))}
          onEdgeClick={(_, { id }) => setChosen(id)}
          onPaneClick={() => setChosen(undefined)}
          onKeyDown={onKeyDown}
          deleteKeyCode={null}
          {...STEADY}
          minZoom={0.2}
          fitView
          fitViewOptions={{ maxZoom: 1 }}
        >
          <Controls showInteractive={false} position="bottom-right" />
        </ReactFlow>
      </div>
      <Text size="xs" c="dimmed" mt={4} role="status">
        {begun === undefined
          ? t("plan.edit.draw")
          : t("plan.edit.second", { id: visible(begun.subtask.id) })}
      </Text>
      {line !== undefined && (
        <Button size="xs" variant="default" mt={4} onClick={() => unlink(line.id)}>
          {t("plan.edit.unlink", { from: line.from.subtask.id, to: line.to.subtask.id })}
        </Button>
      )}
    </section>
  );
}

function placesOf(drafts: readonly Draft[], links: readonly Link[]) {
  const nodes = drafts.map(({ key }) => ({ id: String(key), dependencies: [] }));
  const edges = links.map(({ from, to }) => ({ from: String(from.key), to: String(to.key) }));
  return layoutOf({ nodes, edges });
}

function DraftBox({ data: { subtask, isFirst } }: NodeProps<DraftNode>) {
  const { i18n } = useTranslation();
  const time = estimate(subtask.estimated_time ?? "5 min", i18n.language);
  const facts = [workerOf(subtask), `~${time}`];
  return (
    <div className={classes.node} data-first={isFirst || undefined}>
      <Handle type="target" position={Position.Left} />
      <div className={classes.head}>
        <span className={classes.id} title={subtask.id}>
          {visible(subtask.id)}
        </span>
      </div>
      <div className={classes.words}>{visible(subtask.description)}</div>
      <div className={classes.facts}>{facts.filter(Boolean).join(" · ")}</div>
      <Handle type="source" position={Position.Right} />
    </div>
  );
}
