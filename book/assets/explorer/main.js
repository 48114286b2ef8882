// Everything together, and the first state: that of the link, or the first example.

import { follow } from "explorer/actions";
import "explorer/cells";
import "explorer/choices";
import { root } from "explorer/page";
import "explorer/sharing";

addEventListener("hashchange", () => follow(location.hash));
follow(location.hash);
root.dataset.ready = "";
