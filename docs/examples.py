# %% [markdown]
# # Seeing autograd
#
# What the course draws, measures and counts, in one notebook. Open this file with jupytext, or run its cells where your
# editor finds them.

# %%
import torch
from autogradlab import accelerator, counters, graph, memory
from torch import nn
from torch.nn import functional as F

# %% [markdown]
# ## Gradients on their way
#
# The graph of `(w * x + 1) ** 2`, as PyTorch holds it, and the gradients that travel through it.

# %%
x = torch.tensor(3.0, requires_grad=True)
w = torch.tensor(2.0, requires_grad=True)
z = w * x + 1
loss = z**2
graph.draw(loss, names={"w": w, "x": x, "z": z})

# %%
graph.steps(loss, names={"w": w, "x": x})

# %% [markdown]
# ## The same with x detached
#
# The edge to `x` is an edge to None, and no gradient takes it.

# %%
cut = (w * x.detach() + 1) ** 2
graph.compare(loss, cut, names={"w": w, "x": x}, titles=("tracked", "x detached"))

# %%
graph.steps(cut, names={"w": w, "x": x})

# %% [markdown]
# ## A leak, until the memory is full
#
# A loss that was never sent backward keeps its graph, and with it every tensor that the graph saved. Three other ways
# of keeping it do not.

# %%
device = accelerator.register()
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
inputs = torch.randn(256, 64, device=device)
targets = torch.randint(10, (256,), device=device)


def loss_of_a_step():
    return F.cross_entropy(model(inputs), targets)


# %%
def quietly(keep):
    with torch.no_grad():
        return keep(loss_of_a_step())


variants = {
    "the loss itself": lambda: loss_of_a_step(),
    "loss.detach()": lambda: loss_of_a_step().detach(),
    "loss.item()": lambda: loss_of_a_step().item(),
    "inside no_grad": lambda: quietly(lambda loss: loss),
}
memory.growth(lambda step: step(), steps=10, variants=variants)


# %%
def steps_survived(step, most=200):
    kept = []
    with accelerator.limits(capacity=16 * 2**20):
        try:
            for _ in range(most):
                kept.append(step())
        except torch.OutOfMemoryError as error:
            print(error)
    return len(kept)


for label, step in variants.items():
    print(f"{label}: {steps_survived(step)} steps of 200")

# %% [markdown]
# ## Four taxis and one lorry
#
# The same rows, moved one by one and all at once.

# %%
batch = torch.ones(4, 3)
with counters.count() as taxis:
    rows = [row.to(device) for row in batch]
taxis

# %%
with counters.count() as lorry:
    moved = batch.to(device)
lorry
