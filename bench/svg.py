"""Line plots as SVG text: a handful of points on evenly spaced places, one line per contender. Needs nothing but Python."""

from html import escape

WIDTH, LEFT, RIGHT, TOP, PLOT = 460, 64, 16, 34, 188  # PLOT: height of the area that the axes enclose
COLOURS = {"ligerdsl": "#d62728", "liger": "#1f77b4", "compile": "#2ca02c", "torch": "#7f7f7f", "quack": "#9467bd", "copy": "#000000",
           "floor": "#000000"}
OTHERS = ("#8c564b", "#e377c2", "#bcbd22", "#17becf", "#ff9896", "#98df8a")


def nice_top(value):
    """The smallest of 1, 2, 2.5, 5, 10 times a power of ten that is not below value."""
    power = 1.0
    while power * 10 < value:
        power *= 10
    while power > value:
        power /= 10
    return next(power * f for f in (1, 2, 2.5, 5, 10) if power * f >= value)


def number(value):
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:g}"


def plot(title, x_label, y_label, places, lines, names=None):
    """places: labels along x. lines: {contender: {label: value}}. A missing point interrupts its line."""
    names = names or {}
    top = nice_top(max(value for points in lines.values() for value in points.values()))
    inner_w, inner_h = WIDTH - LEFT - RIGHT, PLOT
    entry = 28 + 6 * max(len(names.get(contender, contender)) for contender in lines)  # the legend's widest
    columns = max(1, inner_w // entry)
    height = TOP + inner_h + 62 + 16 * -(-len(lines) // columns)
    x_of = lambda i: LEFT + inner_w * (i + 0.5) / len(places)
    y_of = lambda value: TOP + inner_h * (1 - value / top)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
           'font-family="sans-serif" font-size="11">', f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
           f'<text x="{WIDTH / 2:g}" y="18" text-anchor="middle" font-size="13">{escape(title)}</text>']
    for step in range(6):
        value = top * step / 5
        y = y_of(value)
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#dddddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number(value)}</text>')
    label = 11 if len(places) <= 8 else 9
    for i, place in enumerate(places):
        out.append(f'<text x="{x_of(i):.1f}" y="{TOP + inner_h + 15}" font-size="{label}" text-anchor="middle">{escape(str(place))}</text>')
    out.append(f'<text x="{LEFT + inner_w / 2:g}" y="{TOP + inner_h + 32}" text-anchor="middle">{escape(x_label)}</text>')
    out.append(f'<text transform="translate(14 {TOP + inner_h / 2:g}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>')
    spare = iter(OTHERS)
    for k, (contender, points) in enumerate(lines.items()):
        colour = COLOURS.get(contender) or next(spare, "#444444")
        path, pen = [], "M"
        for i, place in enumerate(places):
            if place not in points:
                pen = "M"
                continue
            x, y = x_of(i), y_of(points[place])
            path.append(f"{pen}{x:.1f} {y:.1f}")
            out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
            pen = "L"
        dash = ' stroke-dasharray="4 3"' if contender in ("copy", "floor") else ""
        out.append(f'<path d="{" ".join(path)}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        x, y = LEFT + k % columns * entry, TOP + inner_h + 54 + k // columns * 16
        out.append(f'<line x1="{x}" y1="{y - 4}" x2="{x + 16}" y2="{y - 4}" stroke="{colour}" stroke-width="2"{dash}/>')
        out.append(f'<text x="{x + 20}" y="{y}">{escape(names.get(contender, contender))}</text>')
    return "\n".join([*out, "</svg>", ""])
