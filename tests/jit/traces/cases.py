"""Programs of one line that are traced; `recorded.json` has the graphs that PyTorch makes of them.

    /python/with/torch tests/jit/traces/cases.py     # writes recorded.json, with PyTorch 2.13

Graphs are written without places and numbers of values, constants in the place of what names them.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).with_name("recorded.json")
_SETUP = "im = torch.ones(1, 2, 8, 8); s = torch.ones(1, 2, 8); w = torch.ones(5, 4); c = torch.ones(3, 2, 3, 3)"
#: Expressions of x (3 by 4) and i (two integers); what begins with "S:" is statements, after which x is the result.
LINES = """
x[i]
x[:,i]
x[...,0]
x[None]
x[1]
x[-1,::2]
x[[0,1]]
x[x>0]
x[i[0]]
x[i[0]:]
x[1:2][:, None]
x[...]
x[:]
x[:,1:,None]
x[i,i]
x[(0,1)]
x[0,1]
x[x.shape[0]-1]
x[:x.shape[1]-2]
S:x=x*1;x[0]=1
S:x=x*1;x[i]=2.
S:x=x*1;x[:,1:]=x[:,:1]
S:x=x*1;x[x>0]=0
S:x=x*1;x[...]=3
S:x=x*1;x[:]=4
S:y=x.clone();y[1,2]=x[0,0]
S:y=x.clone();y+=x;y-=1;y*=2;y/=3;x=y
S:x=x*1;x[0]=x[1]
S:x=x*1;x[i]=x[i]
x.to('cpu')
x.to(torch.float16)
x.to(i)
x.double()
x.half()
x.bool()
x.type(torch.int32)
x.cpu()
x.to('cpu',torch.float64)
x.to(dtype=torch.int8)
x.to(device='cpu',dtype=torch.int8,non_blocking=True)
torch.as_tensor(x)
torch.as_tensor(x,dtype=torch.float64)
x+torch.tensor([1,2,3,4])
x+torch.tensor(2.5,dtype=torch.float64)
x+x.new_tensor([1.,2,3,4])
x.new_full((2,),3)
x.new_zeros(2,3)
x.new_ones(x.shape)
torch.full((2,3),1.5)
torch.full_like(x,2)
torch.ones_like(x,dtype=torch.int)
torch.zeros_like(x)
torch.empty_like(x)+0
torch.eye(3)
torch.linspace(0,1,5)
torch.arange(0,5,2)
torch.arange(3.)
torch.arange(x.size(1))
torch.arange(0,x.shape[1],device=x.device)
torch.arange(x.size(1),dtype=torch.long)
torch.zeros(2,3)
torch.zeros([2,3])
torch.zeros((2,),dtype=torch.long)
torch.zeros(x.size(0),3)
torch.ones(x.shape[0],x.shape[1])
torch.zeros(x.shape)
torch.scalar_tensor(3.)
torch.rand(2,3)
torch.randn(2)
torch.randn_like(x)
torch.rand_like(x)
torch.randint(0,3,(2,))
torch.randperm(3)
torch.bernoulli(x.sigmoid())
x.squeeze()
x.squeeze(0)
x.flatten()
x.flatten(1)
torch.flatten(x,0)
x.view(-1)
x.view(2,6)
x.view((2,6))
x.reshape(6,2)
x.reshape(x.shape[0],-1)
x.view(x.size(0),2,2)
x.view(x.size(0)*2,-1)
x.view(x.shape[1],x.shape[0])
x.repeat(2,1)
x.repeat(x.shape[0],1)
x.expand_as(x)
x[None].expand(2,-1,-1)
x.permute(1,0)
x.permute([1,0])
x.transpose(0,1)
x.t()
x.T
x.mT
x.roll(1,0)
x.unsqueeze(-1)
torch.unsqueeze(x,0)
torch.movedim(x,0,1)
torch.swapaxes(x,0,1)
x.unfold(1,2,1)
x.diagonal()
x.flip(0)
x.narrow(1,0,2)
x.view_as(x)
x.contiguous()
x.clone()
x.detach()
x.data+0
x.unflatten(1,(2,2))
torch.split(x,2,1)[0]
x.split([1,3],1)[1]
x.split(2,1)
torch.chunk(x,2)[0]
a if (a:=x.chunk(2,1)[1]) is not None else x
x.unbind(1)[0]
torch.tensor_split(x,2,1)[0]
torch.cat([x,x])
torch.cat((x,x),1)
torch.cat([x,x],dim=-1)
torch.stack([x,x],dim=1)
torch.hstack([x,x])
torch.concat([x,x])
torch.gather(x,1,torch.zeros(3,2,dtype=torch.long))
x.index_select(1,i)
x.scatter(1,i[None],1.)
x.masked_fill(x>0,0)
x.masked_fill(x>0,float('-inf'))
x.tril()
x.triu(1)
torch.repeat_interleave(x,2,dim=0)
x.repeat_interleave(2,1)
torch.meshgrid(x[0],x[0],indexing='ij')[0]
torch.broadcast_tensors(x,x)[0]
x.index_fill(0,i,1.)
x.index_add(0,i,x[:2])
x.take_along_dim(torch.zeros(3,2,dtype=torch.long),1)
x.sum()
x.sum(1)
x.sum((0,1))
x.sum(-1,keepdim=True)
x.sum(dim=1)
x.mean()
x.mean(-1)
x.mean((0,1))
x.mean(dim=[0,1],keepdim=True)
x.max()
x.max(1)[0]
x.max(dim=1,keepdim=True).values
torch.max(x,x)
x.argmax(1)
x.argmax()
x.min(0).values
x.prod()
x.prod(1)
x.std()
x.std(0)
x.std(dim=0,unbiased=False)
x.var(unbiased=False)
x.var(1)
torch.var_mean(x,1)
x.norm()
x.norm(dim=1)
x.norm(p=1)
x.norm(2,-1,True)
torch.norm(x)
torch.linalg.norm(x)
torch.linalg.norm(x,dim=-1,keepdim=True)
torch.linalg.vector_norm(x)
x.cumsum(0)
x.sort()[0]
torch.sort(x,descending=True)
x.argsort(1)
x.topk(2)[0]
torch.topk(x,2,dim=1)
x.any()
x.all(1)
x.amax(1)
x.amin((0,1))
x.logsumexp(1)
x.median()
x.nansum()
torch.bincount(i)
torch.nonzero(x)
torch.count_nonzero(x)
torch.std_mean(x)
x+1
x+1.5
1+x
x-1
1-x
2.*x
x/2
2/x
x//2
x%3
x**2
x**0.5
2**x
-x
+x
x@x.t()
x>0
x>=x
x==0
x!=x
x<1.5
x<=1
0<x
(x>0)&(x<1)
(x>0)|(x<1)
(x>0)^(x<1)
~(x>0)
i&1
i<<1
i>>1
i//2
abs(x)
x+True
torch.add(x,2)
torch.add(x,x,alpha=2)
x.add(x,alpha=0.5)
torch.mul(x,2)
torch.sub(x,1,alpha=2)
torch.div(x,2,rounding_mode='floor')
torch.pow(x,2)
torch.pow(2,x)
torch.eq(x,0)
torch.maximum(x,x)
x.add(1)
x.mul(2.5)
x.addmm(x@x.t(),x)
torch.baddbmm(x[None],x[None]@x.t()[None],x[None])
torch.addcmul(x,x,x,value=0.5)
torch.bmm(x[None],x.t()[None])
torch.matmul(x,x.t())
x.mm(x.t())
torch.dot(x[0],x[0])
torch.mv(x,x[0])
torch.outer(x[0],x[0])
torch.einsum('ij->ji',x)
torch.einsum('ij,kj->ik',x,x)
torch.tensordot(x,x.t(),1)
torch.cdist(x,x)
torch.multiply(x,2)
torch.clip(x,0,1)
x.clamp(min=0)
x.clamp(0,1)
torch.clamp(x,max=2)
torch.true_divide(x,2)
torch.special.expit(x)
torch.where(x>0,x,0.)
torch.where(x>0,x,-x)
torch.where(x>0)
x.lerp(x,0.5)
x.exp()
x.log()
x.sqrt()
x.rsqrt()
x.sigmoid()
x.tanh()
x.sin()
x.floor()
x.round()
x.erf()
x.sign()
x.reciprocal()
x.softmax(1)
torch.softmax(x,-1)
x.log_softmax(-1)
x.relu()
torch.relu(x)
torch.sigmoid(x)
x.type_as(i)
x.pow(x)
x.isnan()
torch.isfinite(x)
x.logical_not()
torch.logical_and(x>0,x<1)
x.fmod(2)
x.remainder(2)
torch.nan_to_num(x)
x.float()+x.long()
x.float().mean().sqrt()
x*x.shape[0]
x/x.size(-1)
x/x.size(-1)**0.5
torch.addmm(x[0],x@x.t(),x,beta=0.5)
x.numel()*x
S:x=x*1;x.zero_()
S:x=x*1;x.fill_(2)
S:x=x*1;x.copy_(x+1)
S:x=x*1;x.relu_()
S:x=x*1;x.add_(1)
S:x=x*1;x.mul_(2)
S:x=x*1;x.clamp_(0)
S:x=x*1;x.masked_fill_(x>0,1.)
S:x=x*1;x.sub_(x,alpha=2)
S:x=x*1;x.div_(2)
S:x=x*1;x.exp_()
S:x=x*1;x.normal_()
S:x=x*1;x.uniform_()
S:x=x*1;F.relu(x,inplace=True)
S:x=x*1;x.t_()
S:x=x*1;x.unsqueeze_(0)
S:x=x*1;x.index_copy_(0,i,x[:2]*2)
S:x=x*1;x.scatter_(1,i[None],1.)
F.relu(x)
F.relu(x,inplace=False)
F.relu6(x)
F.elu(x)
F.gelu(x)
F.gelu(x,approximate='tanh')
F.silu(x)
F.mish(x)
F.leaky_relu(x,0.2)
F.softplus(x)
F.sigmoid(x)
F.tanh(x)
F.hardtanh(x)
F.hardswish(x)
F.hardsigmoid(x)
F.softmax(x,1)
F.softmax(x,dim=-1,dtype=torch.float64)
F.log_softmax(x,-1)
F.softmin(x,1)
F.glu(x,1)
F.logsigmoid(x)
F.celu(x)
F.selu(x)
F.prelu(x,torch.ones(1))
F.threshold(x,0.,1.)
F.softsign(x)
F.tanhshrink(x)
F.softshrink(x)
F.hardshrink(x)
F.linear(x,w)
F.linear(x,w,torch.ones(5))
F.bilinear(x,x,torch.ones(2,4,4))
F.embedding(i,w)
F.embedding(i,w,padding_idx=0)
F.one_hot(i,4)
F.dropout(x,0.1,False)
F.dropout(x,0.1)
F.dropout2d(im,0.1,False)
F.alpha_dropout(x,0.1,False)
F.conv2d(im,c)
F.conv2d(im,c,padding='same')
F.conv2d(im,c,stride=2,padding=1)
F.conv1d(s,torch.ones(3,2,3))
F.conv_transpose2d(im,torch.ones(2,3,3,3),stride=2)
F.max_pool2d(im,2)
F.max_pool2d(im,3,2,1)
F.max_pool2d(im,2,return_indices=True)[1]
F.max_pool1d(s,2)
F.avg_pool2d(im,2)
F.avg_pool1d(s,2)
F.adaptive_avg_pool2d(im,1)
F.adaptive_avg_pool2d(im,(2,3))
F.adaptive_avg_pool2d(im,(None,3))
F.adaptive_max_pool2d(im,2)
F.adaptive_avg_pool1d(s,2)
F.interpolate(im,scale_factor=2)
F.interpolate(im,size=(4,4),mode='bilinear',align_corners=False)
F.interpolate(im,scale_factor=2.,mode='bilinear')
F.interpolate(s,size=4,mode='linear')
F.interpolate(im,size=im.shape[2:])
F.pad(im,(1,1))
F.pad(im,(1,1,1,1),mode='reflect')
F.pad(im,(1,1),value=2.)
F.batch_norm(im,torch.zeros(2),torch.ones(2))
F.instance_norm(im)
F.layer_norm(x,(4,))
F.layer_norm(x,x.shape[1:])
F.rms_norm(x,(4,))
F.normalize(x)
F.cosine_similarity(x,x)
F.pairwise_distance(x,x)
F.mse_loss(x,x+1)
F.l1_loss(x,x+1)
F.smooth_l1_loss(x,x+1)
F.cross_entropy(x,torch.tensor([0,1,2]))
F.nll_loss(x,torch.tensor([0,1,2]))
F.binary_cross_entropy(x.sigmoid(),x.sigmoid())
F.binary_cross_entropy_with_logits(x,x.sigmoid())
F.kl_div(x,x+1)
F.huber_loss(x,x+1)
F.pixel_shuffle(torch.ones(1,4,2,2),2)
F.unfold(im,2)
F.fold(torch.ones(1,8,49),(8,8),2)
F.grid_sample(im,torch.zeros(1,2,2,2))
F.affine_grid(torch.ones(1,2,3),(1,2,4,4))
F.scaled_dot_product_attention(im,im,im)
F.scaled_dot_product_attention(im,im,im,is_causal=True)
F.scaled_dot_product_attention(im,im,im,attn_mask=torch.ones(8,8))
F.upsample(im,scale_factor=2)
F.margin_ranking_loss(x,x+1,x+2)
F.triplet_margin_loss(x,x+1,x+2)
F.cosine_embedding_loss(x,x+1,torch.ones(3))
F.ctc_loss(torch.ones(4,1,3).log_softmax(2),torch.tensor([[1,2]]),torch.tensor([4]),torch.tensor([2]))
float(x[0,0])*x
int(x[0,0])*x
x*x[0,0].item()
x if bool(x.sum()>0) else -x
x*len(x)
torch.stack([t for t in x])
torch.stack(list(x))
x+x.tolist()[0][1]
x+torch.from_numpy(x.numpy())
[a for a in range(x.size(0))] and x*1
x*(x.dim())
x*x.ndim
sum(x)
max(x.shape)*x
[x,x+1]
(x,(x+1,x))
x.shape[0]
x.new_empty(0).new_zeros(2)
torch.no_grad() and x+1
x if x.is_contiguous() else x
x.size(0)
x.stride(0)*x
""".strip().splitlines()


def function_of(line: str) -> Any:
    """The function of a line, by PyTorch or by us: `function_of(line)(torch)`."""
    body = line.removeprefix("S:") + "\n    return x" if line.startswith("S:") else f"return {line}"
    names = set(re.findall(r"\b(im|s|w|c)\b", line))
    setup = "".join(f"    {part.strip()}\n" for part in _SETUP.split(";") if part.split()[0] in names)
    text = f"def f(x, i):\n{setup}    {body}\n"

    def made(torch: Any) -> Any:
        namespace = {"__name__": "__main__", "torch": torch, "F": torch.nn.functional}
        exec(compile(text, "line.py", "exec"), namespace)
        return namespace["f"]

    return made


def inputs(torch: Any) -> tuple[Any, Any]:
    """x and i."""
    return torch.arange(12.0).reshape(3, 4) / 7, torch.tensor([0, 2])


def shortened(graph: Any) -> list[str]:
    """The nodes of a graph: results with their types, the operator, its inputs."""
    text = re.sub(r" # .*", "", str(graph))
    constants: dict[str, str] = {}
    numbers: dict[str, str] = {}

    def shown(found: re.Match[str]) -> str:
        name = found[1]
        if name in constants:
            return constants[name]
        return "%" + (numbers.setdefault(name, str(len(numbers))) if name.isdigit() else name)

    lines = []
    pattern = r"%([\w.]+) : (.*?) = prim::Constant(?:\[value=(.*?)\])?\(\)$"
    for line in re.sub(r"\n(?! *%| *return|graph| *=)", " ", text).splitlines()[2:]:
        constant = re.search(pattern, line.strip())
        if constant is not None:
            value = constant[3] or "None"
            constants[constant[1]] = "<tensor>" if "CPU" in value or "Tensor" in value else value
            continue
        line = line.strip()
        if line:
            plain = re.sub(r"(, )?requires_grad=0, device=cpu", "", line)
            lines.append(re.sub(r"%([\w.]+)", shown, plain))
    return lines


def main() -> None:
    """Write what PyTorch records."""
    import torch

    made = {}
    warnings.simplefilter("ignore")
    for line in LINES:
        graph = torch.jit.trace(function_of(line)(torch), inputs(torch), check_trace=False).graph
        made[line] = shortened(graph)
    RECORDED.write_text(json.dumps(made, indent=0) + "\n")


if __name__ == "__main__":
    sys.exit(main())
