"""Modules whose exported programs are taken apart, for either implementation: `models(torch)` gives name -> (module, inputs).

python decomposition_models.py      # with PyTorch: records what its programs are in decomposed.json
"""

import json
import pathlib

RECORDED = pathlib.Path(__file__).with_name("decomposed.json")


def printed(torch, module, inputs):
    """The lines of the code of a program that was taken apart, without what says when values are last used; its signature."""
    program = torch.export.export(module, inputs).run_decompositions()
    code = [line.strip().partition(";  ")[0] for line in program.graph_module.code.strip().split("\n")]
    return [line.replace("torch.ops.aten.", "") for line in code], str(program.graph_signature).split("\n")


def models(torch):
    nn, F, rand = torch.nn, torch.nn.functional, torch.rand

    class CNN(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
            self.act, self.pool, self.fc = nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Linear(8, 5)

        def forward(self, x):
            x = self.pool(self.act(self.bn(self.conv(x))))
            return self.fc(F.dropout(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1), 0.5, self.training))

    class Block(nn.Module):
        def __init__(self, c, d, stride):
            super().__init__()
            self.c1, self.b1 = nn.Conv2d(c, d, 3, stride, 1, bias=False), nn.BatchNorm2d(d)
            self.c2, self.b2 = nn.Conv2d(d, d, 3, 1, 1, bias=False), nn.BatchNorm2d(d)
            self.act = nn.ReLU(inplace=True)
            self.down = nn.Sequential(nn.Conv2d(c, d, 1, stride, bias=False), nn.BatchNorm2d(d)) if stride != 1 else None

        def forward(self, x):
            same = x if self.down is None else self.down(x)
            x = self.b2(self.c2(self.act(self.b1(self.c1(x)))))
            x += same
            return self.act(x)

    class GPT(nn.Module):
        def __init__(self, merged):
            super().__init__()
            self.merged = merged
            self.wte, self.wpe = nn.Embedding(11, 8), nn.Embedding(6, 8)
            self.ln, self.qkv, self.o, self.ln2 = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8), nn.LayerNorm(8)
            self.f1, self.f2, self.head = nn.Linear(8, 32), nn.Linear(32, 8), nn.Linear(8, 11, bias=False)

        def forward(self, i):
            b, t = i.shape
            x = self.wte(i) + self.wpe(torch.arange(t))
            if self.merged:
                q, k, v = (z.view(b, t, 2, 4).transpose(1, 2) for z in self.qkv(self.ln(x)).split(8, dim=2))
            else:
                q, k, v = self.qkv(self.ln(x)).view(b, t, 3, 2, 4).permute(2, 0, 3, 1, 4).contiguous().unbind(0)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.o(y.transpose(1, 2).contiguous().view(b, t, 8))
            x = x + self.f2(F.gelu(self.f1(self.ln2(x)), approximate="tanh"))
            return self.head(x)

    class Function(nn.Module):
        def __init__(self, function):
            super().__init__()
            self.function = function
            self.register_buffer("b", torch.zeros(3))
            self.register_buffer("n", torch.zeros(3), persistent=False)

        def forward(self, *given):
            return self.function(self, *given)

    def writes(self, x, y):
        y.mul_(2)
        z = x.clone()
        v = z[0]
        v.add_(1)
        w = z.view(-1)
        w[2:4] = 5.0
        self.b += v
        q = z.t()
        q.relu_()
        return z, v, y, w

    def writes_after_views(self, x):
        z = x.clone()
        w = z.t()
        y = w[0]
        y.mul_(2)
        u = z.unsqueeze(0).expand(2, -1, -1)
        z.add_(1)
        return u

    def writes_to_parts(self, x):
        z = x.clone()
        a, b = z.split([1, 2])
        a.add_(1)
        b.copy_(x[1:])
        z.diagonal().fill_(0.0)
        z[:, 1:].mul_(2)
        z[..., 0].add_(1)
        return z

    def writes_at_places(self, x):
        z = x + 1
        z.masked_fill_(x > 0, 3.0)
        z.index_put_((torch.tensor([0]),), torch.tensor(2.0))
        return z.clone(), z.zero_()

    def new_buffer(self, x):
        self.b = self.b + 1
        return x + self.b

    def into_input(self, x):
        x.copy_(self.b)
        self.n.add_(1)
        return x * 2

    def running_mean(self, x):
        self.b.mul_(0.9).add_(x.mean(0), alpha=0.1)
        self.n.fill_(2.0)
        return self.n, self.b + 1

    def in_place(self, x):
        return (
            x.clone().clamp_(0, 1).add_(1).div_(2).sigmoid_().pow_(2),
            x.clone().t_().unsqueeze_(0).mul_(3),
            x.clone().tril_().exp_().neg_().addcmul_(x, x),
        )

    def views(self, x):
        return x, x.view(-1), self.b.detach(), 3, x[:, None], x.unbind(0)[0], x.chunk(2, 1)[0], x.T, x.squeeze()

    def places(self, x):
        i = torch.tensor([0, 1])
        return x.index_add(0, i, x[:2]).scatter(0, torch.tensor([[0]]), x), x[i], x.index_fill(0, i, 2.0), x.gather(1, i[None])

    def numbers(self, x):
        return (
            torch.zeros(2), torch.ones_like(x), torch.full((2,), 1.0), x.new_zeros(2), torch.arange(3), torch.eye(3),
            torch.linspace(0, 1, 5), x.tril(1), x.roll(1, 0), x.flip(0), torch.full_like(x, 2.0),
        )  # fmt: skip

    def arithmetic(self, x):
        return (
            1 - x, x**2, 2**x, -x, x % 2, x // 0.3, x.square(), torch.outer(x[0], x[1]), torch.addmm(x, x[:, :3], x),
            x.masked_fill(x > 0.5, 1.0), torch.lerp(x, x + 1, 0.3), torch.addcdiv(x, x, x + 1), x.clamp(min=0), x.isnan(),
            x.nan_to_num(), x.frac(), torch.xlogy(x, x), x.logit(), x.sinc(),
        )  # fmt: skip

    def reductions(self, x):
        return (
            x.mean(), x.sum(), x.var(), x.max(1)[0], x.argmax(), x.norm(), x.cumsum(0), x.sort()[0], x.topk(2)[0], (x > 0).all(),
            x.logsumexp(0), x.std(1), x.var(0, unbiased=False), torch.std_mean(x), x.aminmax(dim=0), x.count_nonzero(),
        )  # fmt: skip

    def products(self, x, y):
        return (
            torch.einsum("ij,kj->ik", x, x), torch.einsum("bij,bjk->bik", y, y.mT), torch.einsum("i,j->ij", x[0], x[1]),
            torch.einsum("...ij,...jk->...ik", y, x.T), torch.einsum("ij->j", x),
            torch.einsum("bn,anm,bm->ba", x, y.mT, x[:, :3]), torch.einsum("bij->bji", y), torch.einsum("ij,kl->il", x, x),
        )  # fmt: skip

    def distances(self, x, y):
        signs = torch.tensor([1, -1, 1])
        return (
            F.cosine_similarity(x, y), F.pairwise_distance(x, y), F.triplet_margin_loss(x, y, x * 2), torch.cdist(x, y),
            F.hinge_embedding_loss(x, y), F.poisson_nll_loss(x, y),
            F.margin_ranking_loss(x, y, x * 2), F.cosine_embedding_loss(x, y, signs), F.soft_margin_loss(x, y),
        )  # fmt: skip

    def elements(self, x, i):
        return (
            torch.where(x > 0.5, 1.0, 0.0), torch.where(x > 0.5, x, 1), torch.where(x > 0.5, 2, x), torch.max(x, x * 2),
            torch.min(x, x * 2), x.diff(), torch.take_along_dim(x, i, 1), torch.float_power(x, 2), x.msort(), x.argsort(1),
            torch.isclose(x, x), x.isfinite(), x.isreal(), x.nanmean(), x.repeat_interleave(2, 1),
            F.softmax(x, -1, dtype=torch.float64), x.fliplr(), torch.hstack([x, x]), x.tile(2),
        )  # fmt: skip

    def matrices(self, x, y):
        return (
            torch.det(x), torch.linalg.svdvals(x), torch.linalg.matrix_power(x, 3), torch.linalg.vecdot(x, x),
            torch.kron(x, y), torch.fft.fft(x), torch.fft.irfft(torch.fft.rfft(y)), torch.linalg.multi_dot([x, x, x]),
        )  # fmt: skip

    def attention_of_shared_heads(self, q, k):
        alone = F.scaled_dot_product_attention(k[0], k[0], k[0], scale=0.3)
        return F.scaled_dot_product_attention(q, k, k, enable_gqa=True), alone

    def resampled(self, x):
        row, block = x[:, :, 0], x[:, :, :, :, None]
        return (
            F.interpolate(row, scale_factor=2.0), F.interpolate(row, scale_factor=2.0, mode="linear"),
            F.interpolate(row, size=7, mode="linear", align_corners=True), F.interpolate(block, scale_factor=2.0),
            F.interpolate(block, scale_factor=2.0, mode="trilinear"), F.interpolate(x, scale_factor=2.0, mode="nearest-exact"),
            F.interpolate(x, size=(3, 3), mode="area"),
        )  # fmt: skip

    activations = [
        nn.SiLU(), nn.Hardswish(), nn.ELU(), nn.LeakyReLU(0.1), nn.Softplus(), nn.Softplus(2), nn.Mish(), nn.SELU(), nn.CELU(),
        nn.Hardtanh(), nn.ReLU6(), nn.Tanh(), nn.Sigmoid(), nn.LogSigmoid(), nn.Softsign(), nn.Tanhshrink(), nn.Hardsigmoid(),
        nn.Softshrink(), nn.Hardshrink(), nn.Threshold(0.1, 2.0), nn.GELU(), nn.PReLU(), nn.GLU(),
    ]  # fmt: skip
    overwriting = [
        nn.SiLU(True), nn.Hardswish(True), nn.ELU(inplace=True), nn.LeakyReLU(0.1, True), nn.Mish(True), nn.SELU(True),
        nn.CELU(inplace=True), nn.Hardtanh(inplace=True), nn.ReLU6(True), nn.Hardsigmoid(True), nn.Threshold(0.1, 2.0, True),
    ]  # fmt: skip
    attended = [rand(2, 2, 5, 4) for _ in range(3)]
    image, classes, tokens = rand(2, 3, 8, 8), torch.tensor([0, 1, 2]), torch.tensor([[1, 2, 3], [4, 5, 6]])

    def pooled(self, x):
        row = x[:, :, 0]
        return (
            F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 3), F.adaptive_max_pool2d(x, 3), F.max_pool1d(row, 2),
            F.avg_pool1d(row, 2), F.pixel_shuffle(x[:, :1].expand(-1, 4, -1, -1), 2),
            F.channel_shuffle(x[:, :2].repeat(1, 2, 1, 1), 2),
        )  # fmt: skip

    def masked(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, mask), F.scaled_dot_product_attention(q, k, v, mask.float())

    return {
        "mlp": (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), (rand(2, 4),)),
        "dropout in a network": (CNN(), (image,)),
        "network": (CNN().eval(), (image,)),
        "residual": (nn.Sequential(Block(3, 4, 2), Block(4, 4, 1)).eval(), (image,)),
        "residual in training": (nn.Sequential(Block(3, 4, 2), Block(4, 4, 1)), (image,)),
        "gpt": (GPT(False), (tokens,)),
        "gpt of one projection": (GPT(True), (tokens,)),
        "layer norm": (nn.Sequential(nn.LayerNorm(4), nn.GELU()), (rand(2, 3, 4),)),
        "group norm": (nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU()), (rand(2, 4, 3, 3),)),
        "batch norm": (nn.BatchNorm1d(4), (rand(3, 4),)),
        "batch norm without statistics": (nn.BatchNorm1d(4, track_running_stats=False), (rand(3, 4),)),
        "encoder": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), (rand(2, 3, 8),)),
        "multihead attention": (nn.MultiheadAttention(8, 2, batch_first=True), tuple([rand(2, 3, 8) for _ in range(3)])),
        "attention": (Function(lambda self, *qkv: F.scaled_dot_product_attention(*qkv)), tuple(attended)),
        "masked attention": (Function(masked), (*attended, rand(5, 5) > 0.3)),
        "lstm": (nn.LSTM(4, 3), (rand(3, 2, 4),)),
        "lstm both ways": (nn.LSTM(4, 3, 2, bidirectional=True, batch_first=True), (rand(2, 3, 4),)),
        "gru": (nn.GRU(4, 3), (rand(3, 2, 4),)),
        "embedding": (nn.Embedding(10, 4, padding_idx=0), (classes,)),
        "cross entropy": (nn.CrossEntropyLoss(), (rand(3, 4), classes)),
        "smoothed cross entropy": (nn.CrossEntropyLoss(label_smoothing=0.1), (rand(3, 4), classes)),
        "likelihood": (nn.NLLLoss(), (rand(3, 4), classes)),
        "square error": (nn.MSELoss(), (rand(3, 4), rand(3, 4))),
        "absolute error": (nn.L1Loss(), (rand(3, 4), rand(3, 4))),
        "smooth error": (nn.SmoothL1Loss(), (rand(3, 4), rand(3, 4))),
        "huber": (nn.HuberLoss(), (rand(3, 4), rand(3, 4))),
        "binary cross entropy": (nn.BCELoss(), (rand(3, 4), rand(3, 4))),
        "divergence": (nn.KLDivLoss(reduction="batchmean"), (rand(3, 4), rand(3, 4))),
        "pooling": (Function(pooled), (rand(2, 3, 8, 8),)),
        "nearest": (Function(lambda self, x: F.interpolate(x, scale_factor=2.0)), (rand(1, 2, 4, 4),)),
        "bilinear": (Function(lambda self, x: F.interpolate(x, size=(7, 7), mode="bilinear")), (rand(1, 2, 4, 4),)),
        "resampled": (Function(resampled), (rand(1, 2, 4, 4),)),
        "activations": (nn.Sequential(*activations), (rand(3, 4),)),
        "activations in place": (nn.Sequential(*overwriting), (rand(3, 4),)),
        "borders": (nn.Sequential(nn.ReflectionPad2d(1), nn.ReplicationPad2d(1), nn.ZeroPad2d(1)), (rand(1, 2, 4, 4),)),
        "convolutions": (
            nn.Sequential(nn.ConvTranspose2d(2, 3, 2, 2), nn.Conv2d(3, 3, 3, padding="same", groups=3)),
            (rand(1, 2, 4, 4),),
        ),
        "instance norm": (nn.InstanceNorm2d(3, affine=True), (rand(2, 3, 4, 4),)),
        "rms norm": (nn.RMSNorm(4), (rand(2, 4),)),
        "softmax": (nn.Sequential(nn.Softmax(-1), nn.LogSoftmax(0)), (rand(2, 4),)),
        "writes": (Function(writes), (rand(3, 3), rand(2))),
        "writes after views": (Function(writes_after_views), (rand(3, 3),)),
        "writes to parts": (Function(writes_to_parts), (rand(3, 3),)),
        "writes at places": (Function(writes_at_places), (rand(3, 3),)),
        "in place": (Function(in_place), (rand(3, 4),)),
        "new buffer": (Function(new_buffer), (rand(3),)),
        "into input": (Function(into_input), (rand(3),)),
        "running mean": (Function(running_mean), (rand(2, 3),)),
        "views": (Function(views), (rand(3, 4),)),
        "places": (Function(places), (rand(3, 4),)),
        "numbers": (Function(numbers), (rand(3, 4),)),
        "arithmetic": (Function(arithmetic), (rand(3, 4),)),
        "reductions": (Function(reductions), (rand(3, 4),)),
        "half": (nn.Sequential(nn.Linear(4, 4), nn.SiLU(), nn.Softplus()).to(torch.bfloat16), (rand(3, 4).to(torch.bfloat16),)),
        "products": (Function(products), (rand(3, 4), rand(2, 3, 4))),
        "distances": (Function(distances), (rand(3, 4), rand(3, 4))),
        "elements": (Function(elements), (rand(3, 4), torch.zeros(3, 1, dtype=torch.int64))),
        "matrices": (Function(matrices), (rand(3, 3), rand(2, 2))),
        "attention of shared heads": (Function(attention_of_shared_heads), (rand(2, 4, 5, 4), rand(2, 2, 5, 4))),
        "bag": (nn.EmbeddingBag(5, 3, mode="sum"), (torch.tensor([[0, 1], [2, 3]]),)),
        "logits": (nn.BCEWithLogitsLoss(), (rand(3, 4), rand(3, 4))),
        "likelihoods": (nn.CrossEntropyLoss(), (rand(2, 3, 4), torch.zeros(2, 4, dtype=torch.int64))),
        "probabilities": (nn.CrossEntropyLoss(), (rand(3, 4), rand(3, 4))),
        "features in one dimension": (nn.AdaptiveMaxPool1d(2), (rand(1, 1, 4),)),
        "rnn": (nn.RNN(4, 3), (rand(3, 2, 4),)),
        "unfold": (nn.Unfold(2), (rand(1, 2, 4, 4),)),
        "one hot": (Function(lambda self, i: F.one_hot(i, 5)), (classes,)),
    }


if __name__ == "__main__":
    import torch
    import torch.export

    found = {name: printed(torch, *given) for name, given in models(torch).items()}
    RECORDED.write_text(json.dumps(found, indent=0) + "\n")
