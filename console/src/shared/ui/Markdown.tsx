import { Anchor, Box, Text } from "@mantine/core";
import ReactMarkdown, { type Components } from "react-markdown";
import remarkGfm from "remark-gfm";
import classes from "./Markdown.module.css";

/** A model writes these: an image would tell its host that it was seen, and a link could lie. */
const PARTS: Components = {
  img: ({ alt, src }) => <Text span>{`[${alt ?? ""}](${src ?? ""})`}</Text>,
  a: ({ href, children }) => (
    <Anchor href={href} title={href} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </Anchor>
  ),
};

/** Markdown that a model wrote. HTML in it stays text. */
export function Markdown({ text }: { text: string }) {
  return (
    <Box className={classes.text}>
      <ReactMarkdown remarkPlugins={[remarkGfm]} components={PARTS}>
        {text}
      </ReactMarkdown>
    </Box>
  );
}
