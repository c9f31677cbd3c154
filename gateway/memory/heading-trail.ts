/** Follows the headings of a Markdown text, line by line. */
export interface HeadingTrail {
  /** The headings over the line that was read last, outermost first, joined by ` > `. */
  readonly text: string;
  /** Reads the next line; says whether it is a heading. */
  read(line: string): boolean;
}

const heading = /^ {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$/;
const fence = /^ {0,3}(`{3,}|~{3,})/;

/** Longest heading that is kept of one level, in characters. */
const maxHeadingLength = 120;

/** A trail before the first line. Lines within a fence of code are no headings. */
export function createHeadingTrail(): HeadingTrail {
  let trail: string[] = [];
  let text = "";
  let openFence = "";
  return {
    get text() {
      return text;
    },
    read: (line) => {
      const marks = fence.exec(line)?.[1];
      if (marks !== undefined && (openFence === "" || closes(marks, openFence))) {
        openFence = openFence === "" ? marks : "";
        return false;
      }
      const found = openFence === "" ? heading.exec(line) : null;
      if (!found) return false;
      const [, signs = "", title = ""] = found;
      trail = trail.slice(0, signs.length - 1);
      trail[signs.length - 1] = cut(title);
      text = trail.filter(Boolean).join(" > ");
      return true;
    },
  };
}

function closes(marks: string, open: string): boolean {
  return marks[0] === open[0] && marks.length >= open.length;
}

/** A heading that is not longer than is kept, and not cut within a character. */
function cut(title: string): string {
  if (title.length <= maxHeadingLength) return title;
  return title.slice(0, maxHeadingLength).toWellFormed();
}
